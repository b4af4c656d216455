//! Formats the stderr of a program for an error message.

use std::collections::VecDeque;
use std::io::Read;

/// The most bytes of stderr that are kept. The end usually names the cause.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// The most lines of an error message, and their length: enough for a warning, an error and its cause.
const LINES_MAX: usize = 4;
const LINE_CHARACTERS_MAX: usize = 300;

/// The start of pip's message before each of its own retries.
const RETRYING: &str = "WARNING: Retrying (";

/// Reads a stream to its end and returns the last 16 KiB.
pub(super) fn read_tail(mut from: impl Read) -> String {
    let mut kept = VecDeque::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        kept.extend(&buffer[..count]);
        kept.drain(..kept.len().saturating_sub(KEPT_BYTES_MAX));
    }
    String::from_utf8_lossy(kept.make_contiguous()).into_owned()
}

/// Returns the last lines without tracebacks, control characters and credentials.
pub(super) fn tidy(text: &str) -> String {
    let is_relevant = |line: &&str| {
        !line.trim().is_empty() && !line.starts_with([' ', '\t']) && !line.starts_with("Traceback ")
    };
    let mut lines: Vec<&str> = text.lines().filter(is_relevant).collect();
    // Consecutive messages about pip's own retries are shown once.
    lines.dedup_by(|later, earlier| [&*later, &*earlier].iter().all(|line| line.starts_with(RETRYING)));
    let shown = &lines[lines.len().saturating_sub(LINES_MAX)..];
    let clean = |line: &&str| {
        let line: String = line.chars().filter(|character| !character.is_control()).collect();
        shortened(&without_credentials(&line))
    };
    shown.iter().map(clean).collect::<Vec<_>>().join("\n")
}

/// Removes the middle of a long line. The start has the event, the end the cause.
fn shortened(line: &str) -> String {
    let count = line.chars().count();
    if count <= LINE_CHARACTERS_MAX {
        return line.to_owned();
    }
    let half = LINE_CHARACTERS_MAX / 2;
    let start: String = line.chars().take(half).collect();
    let end: String = line.chars().skip(count - half).collect();
    format!("{start} … {end}")
}

/// Removes user information and query strings from URLs, because both may contain keys.
fn without_credentials(line: &str) -> String {
    let mut clean = String::new();
    let mut rest = line;
    while let Some(start) = rest.find("://") {
        let (before, address) = rest.split_at(start + 3);
        clean.push_str(before);
        let end = address.find(|character: char| character.is_whitespace() || "'\"<>)".contains(character));
        let (address, after) = address.split_at(end.unwrap_or(address.len()));
        let host_end = address.find(['/', '?', '#']).unwrap_or(address.len());
        // The last `@` counts, because a key may contain one.
        let host = address[..host_end].rfind('@').map_or(0, |at| at + 1);
        if host > 0 {
            clean.push_str("***@");
        }
        match address[host..].split_once('?') {
            Some((kept, _)) => {
                clean.push_str(kept);
                clean.push_str("?***");
            }
            None => clean.push_str(&address[host..]),
        }
        rest = after;
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_credentials_removes_user_and_query() {
        let check = |line: &str, clean: &str| assert_eq!(without_credentials(line), clean);
        check("no address", "no address");
        check("at https://index.test/simple/ now", "at https://index.test/simple/ now");
        check("at https://me:s3cr@t@index.test/simple/x", "at https://***@index.test/simple/x");
        check("'http://t0ken@a/b?key=1#x' and ftp://u:p@c", "'http://***@a/b?***' and ftp://***@c");
    }

    #[test]
    fn tidy_keeps_the_last_relevant_lines() {
        let text = "WARNING: one\nERROR: Exception:\nTraceback (most recent call last):\n  File \"x\"\n    y\n\n\
                    OSError: [Errno 28] No \u{1b}[31mspace\n";
        assert_eq!(tidy(text), "WARNING: one\nERROR: Exception:\nOSError: [Errno 28] No [31mspace");
        assert_eq!(tidy("1\n2\n3\n4\n5\n"), "2\n3\n4\n5");
        let long = tidy(&format!("start{}end", "ü".repeat(1000)));
        assert!(long.starts_with("startü") && long.ends_with("üend") && long.contains(" … "));
        assert!(long.chars().count() <= LINE_CHARACTERS_MAX + 3);
        let tries = "WARNING: Retrying (2)\nWARNING: Retrying (1)\nERROR: x";
        assert_eq!(tidy(tries), "WARNING: Retrying (2)\nERROR: x");
    }

    #[test]
    fn read_tail_is_bounded() {
        let tail = read_tail(std::io::repeat(b'x').take(1_000_000).chain(&b"\nthe end"[..]));
        assert_eq!(tail.len(), KEPT_BYTES_MAX);
        assert!(tail.ends_with("\nthe end"));
    }
}

//! What a program says on stderr, made fit to be shown.

use std::collections::VecDeque;
use std::io::Read;

/// What is kept of a program's words: its last ones tell why it failed, and it may say any amount.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// What is shown of them: enough for a warning, an error and its reason.
const LINES_MAX: usize = 4;
const LINE_CHARACTERS_MAX: usize = 300;

/// How pip's lines about its own tries begin.
const RETRYING: &str = "WARNING: Retrying (";

/// Reads to the end and keeps the last part.
pub(super) fn last_part(mut from: impl Read) -> String {
    let mut kept = VecDeque::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        kept.extend(&buffer[..count]);
        kept.drain(..kept.len().saturating_sub(KEPT_BYTES_MAX));
    }
    String::from_utf8_lossy(kept.make_contiguous()).into_owned()
}

/// The last lines that say something: no traceback, no control characters, no credentials.
pub(super) fn tidy(text: &str) -> String {
    let is_telling = |line: &&str| {
        !line.trim().is_empty() && !line.starts_with([' ', '\t']) && !line.starts_with("Traceback ")
    };
    let mut lines: Vec<&str> = text.lines().filter(is_telling).collect();
    // pip says so before each of its own tries; one of them tells as much as all.
    lines.dedup_by(|later, earlier| [&*later, &*earlier].iter().all(|line| line.starts_with(RETRYING)));
    let shown = &lines[lines.len().saturating_sub(LINES_MAX)..];
    let clean = |line: &&str| {
        let line: String = line.chars().filter(|character| !character.is_control()).collect();
        shortened(&without_credentials(&line))
    };
    shown.iter().map(clean).collect::<Vec<_>>().join("\n")
}

/// A line without its middle where it is too long: what happened is at its start, why at its end.
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

/// Addresses without what stands before the host and behind the path: both may hold keys.
fn without_credentials(line: &str) -> String {
    let mut clean = String::new();
    let mut rest = line;
    while let Some(start) = rest.find("://") {
        let (before, address) = rest.split_at(start + 3);
        clean.push_str(before);
        let end = address.find(|character: char| character.is_whitespace() || "'\"<>)".contains(character));
        let (address, after) = address.split_at(end.unwrap_or(address.len()));
        let host_end = address.find(['/', '?', '#']).unwrap_or(address.len());
        // A key may itself hold an `@`.
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
    fn credentials_are_not_shown() {
        let check = |line: &str, clean: &str| assert_eq!(without_credentials(line), clean);
        check("no address", "no address");
        check("at https://index.test/simple/ now", "at https://index.test/simple/ now");
        check("at https://me:s3cr@t@index.test/simple/x", "at https://***@index.test/simple/x");
        check("'http://t0ken@a/b?key=1#x' and ftp://u:p@c", "'http://***@a/b?***' and ftp://***@c");
    }

    #[test]
    fn the_last_telling_lines_are_shown() {
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
    fn any_amount_of_words_is_bounded() {
        let words = last_part(std::io::repeat(b'x').take(1_000_000).chain(&b"\nthe end"[..]));
        assert_eq!(words.len(), KEPT_BYTES_MAX);
        assert!(words.ends_with("\nthe end"));
    }
}

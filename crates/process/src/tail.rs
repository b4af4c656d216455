//! Reads output streams and keeps their last bytes.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::Notify;

/// The most characters of output shown in an error message: a few lines.
const SHOWN_CHARACTERS_MAX: usize = 600;

/// The last bytes of a stream. The end of stderr usually names the cause of a failure.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    limit: usize,
}

impl Tail {
    pub(crate) fn new(limit: usize) -> Tail {
        Tail { bytes: Vec::new(), limit }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Trimming only at twice the limit moves each byte at most once.
        if self.bytes.len() > 2 * self.limit {
            self.bytes.drain(..self.bytes.len() - self.limit);
        }
    }

    /// Returns the last bytes of the stream, at most the limit.
    pub(crate) fn kept(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(self.limit)..]
    }
}

/// The size of one read, in bytes.
const CHUNK_BYTES: usize = 4 * 1024;

/// Passes a stream to `take`, chunk by chunk, until it ends or fails.
pub(crate) async fn read_chunks(stream: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else { return };
    let mut chunk = [0; CHUNK_BYTES];
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        take(&chunk[..read]);
    }
}

/// The longest time to read the pipes of a program that has exited.
///
/// Its own output is already in the pipes. Only a process that left the group can keep them open longer.
pub(crate) const PIPES_WAIT_MAX: Duration = Duration::from_secs(5);

/// Polls `reading` to its end. Returns `None` if it is not done [`PIPES_WAIT_MAX`] after `exited` is notified.
pub(crate) async fn while_open<T>(reading: impl Future<Output = T>, exited: &Notify) -> Option<T> {
    let expired = async {
        exited.notified().await;
        tokio::time::sleep(PIPES_WAIT_MAX).await;
    };
    tokio::select! {
        read = reading => Some(read),
        () = expired => None,
    }
}

/// Returns the end of a program's output for an error message: trimmed, at most 600 characters.
pub fn output_tail(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(SHOWN_CHARACTERS_MAX);
    if skipped == 0 {
        return text.to_owned();
    }
    // The mark tells that the text was cut, and where a secret may have been cut with it.
    std::iter::once('…').chain(text.chars().skip(skipped)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_keeps_last_bytes_for_any_chunk_size() {
        for size in [1, 3, 7, 100] {
            let text: Vec<u8> = (0..100).collect();
            let mut tail = Tail::new(10);
            text.chunks(size).for_each(|chunk| tail.push(chunk));
            assert_eq!(tail.kept(), &text[90..], "in chunks of {size} bytes");
        }
        let mut short = Tail::new(10);
        short.push(b"short");
        assert_eq!(short.kept(), b"short");
    }

    #[test]
    fn output_tail_is_bounded_and_keeps_whole_characters() {
        assert_eq!(output_tail(b" \n"), "");
        let tail = output_tail(format!("{} end\n", "ä".repeat(1_000)).as_bytes());
        assert_eq!(tail.chars().count(), SHOWN_CHARACTERS_MAX + 1);
        assert!(tail.starts_with('…'), "{tail}");
        assert!(tail.ends_with("ä end"), "{tail}");
    }
}

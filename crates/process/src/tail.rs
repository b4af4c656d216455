//! Reading what a program says, and keeping the end of its complaints.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::Notify;

/// How much of the end of stderr is worth showing: a few lines. The rest would bury the message around it.
const SHOWN_CHARACTERS_MAX: usize = 600;

/// The last bytes of a stream: complaints end with what matters.
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
        // Twice the limit, so that bytes are moved once for as many that are read.
        if self.bytes.len() > 2 * self.limit {
            self.bytes.drain(..self.bytes.len() - self.limit);
        }
    }

    /// What is left of the stream.
    pub(crate) fn kept(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(self.limit)..]
    }
}

/// How much is read at once; complaints come in lines.
const PIECE_BYTES: usize = 4 * 1024;

/// Reads a stream to its end, a piece at a time.
pub(crate) async fn read_pieces(stream: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else { return };
    let mut piece = [0; PIECE_BYTES];
    // A pipe that breaks has ended.
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        take(&piece[..read]);
    }
}

/// How long the pipes of a program that has ended are still read. What it wrote is in them already; only what
/// left its process group can hold them open, and that is not waited for.
pub(crate) const PIPES_WAIT_MAX: Duration = Duration::from_secs(5);

/// Reads until the pipes end, or for a while after the program did.
pub(crate) async fn while_open<T>(reading: impl Future<Output = T>, ended: &Notify) -> Option<T> {
    let given_up = async {
        ended.notified().await;
        tokio::time::sleep(PIPES_WAIT_MAX).await;
    };
    tokio::select! {
        read = reading => Some(read),
        () = given_up => None,
    }
}

/// The last words of a program, for a message: the end of its stderr, trimmed; empty when it said nothing.
pub fn last_words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(SHOWN_CHARACTERS_MAX);
    text.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_is_kept_however_it_comes() {
        for pieces in [1, 3, 7, 100] {
            let text: Vec<u8> = (0..100).collect();
            let mut tail = Tail::new(10);
            text.chunks(pieces).for_each(|piece| tail.push(piece));
            assert_eq!(tail.kept(), &text[90..], "in pieces of {pieces}");
        }
        let mut short = Tail::new(10);
        short.push(b"short");
        assert_eq!(short.kept(), b"short");
    }

    #[test]
    fn last_words_are_short_and_whole_characters() {
        assert_eq!(last_words(b" \n"), "");
        let words = last_words(format!("{} end\n", "ä".repeat(1_000)).as_bytes());
        assert_eq!(words.chars().count(), SHOWN_CHARACTERS_MAX);
        assert!(words.ends_with("ä end"), "{words}");
    }
}

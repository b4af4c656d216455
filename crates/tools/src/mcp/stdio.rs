//! A server's standard output, overheard on its way to the protocol.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::heard::Heard;

/// How much is kept of a line that is not MCP: enough to recognise it.
const NOISE_BYTES_MAX: usize = 200;

/// Lines on their way to the protocol, which drops those that are too long or no messages without telling
/// anybody.
pub(crate) struct Overheard<R> {
    lines: R,
    heard: Arc<Heard>,
    line_bytes_max: usize,
    line_bytes: usize,
    /// The start of the line, as long as it can only be noise.
    noise: Vec<u8>,
}

impl<R> Overheard<R> {
    pub(crate) fn new(lines: R, heard: Arc<Heard>, line_bytes_max: usize) -> Overheard<R> {
        Overheard { lines, heard, line_bytes_max, line_bytes: 0, noise: Vec::new() }
    }

    fn overhear(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (before, after) = (self.line_bytes, self.line_bytes + piece.len());
            if before <= self.line_bytes_max && after > self.line_bytes_max {
                self.heard.oversized();
            }
            // Messages are objects, and a line that begins otherwise never becomes one.
            if before == 0 && !piece.trim_ascii().starts_with(b"{") || !self.noise.is_empty() {
                let room = NOISE_BYTES_MAX.saturating_sub(self.noise.len());
                self.noise.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            let ended = piece.ends_with(b"\n");
            if (ended || self.noise.len() == NOISE_BYTES_MAX) && !self.noise.trim_ascii().is_empty() {
                self.heard.noise(&self.noise);
            }
            self.line_bytes = if ended { 0 } else { after };
            if ended {
                self.noise.clear();
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Overheard<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.lines).poll_read(context, buffer);
        if polled.is_ready() {
            self.overhear(&buffer.filled()[before..]);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], oversized: bool, noise: Option<&str>) {
        let heard = Arc::new(Heard::default());
        let lost = heard.until_oversized();
        let mut overheard = Overheard::new((), heard.clone(), 10);
        pieces.iter().for_each(|piece| overheard.overhear(piece.as_bytes()));
        let mut lost = std::pin::pin!(lost);
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert_eq!(lost.as_mut().poll(&mut context).is_ready(), oversized, "{pieces:?}");
        assert_eq!(heard.first_noise().as_deref(), noise, "{pieces:?}");
    }

    #[test]
    fn messages_pass_and_the_rest_is_noticed() {
        check(&["{\"a\": 1}\n{\"b\"", ": 2}\n"], false, None);
        check(&["\n  {}\n"], false, None);
        check(&["{\"a\": 123}\n"], true, None);
        check(&["{\"a\"", ": 12", "34}", "\n{}\n"], true, None);
        check(&["read", "y\n{}\nmore\n"], false, Some("ready"));
        check(&["ready"], false, None);
    }
}

//! Monitors a server's standard output on its way to rmcp.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::diagnostics::Diagnostics;

/// Number of bytes kept of a line that is not MCP, enough to recognise it.
const STRAY_BYTES_MAX: usize = 200;

/// A reader that records oversized and non-MCP lines, because rmcp drops them silently.
pub(crate) struct MonitoredReader<R> {
    lines: R,
    diagnostics: Arc<Diagnostics>,
    line_bytes_max: usize,
    line_bytes: usize,
    /// The start of the current line, if it cannot be a message.
    stray_line: Vec<u8>,
}

impl<R> MonitoredReader<R> {
    pub(crate) fn new(lines: R, diagnostics: Arc<Diagnostics>, line_bytes_max: usize) -> MonitoredReader<R> {
        MonitoredReader { lines, diagnostics, line_bytes_max, line_bytes: 0, stray_line: Vec::new() }
    }

    fn inspect(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (before, after) = (self.line_bytes, self.line_bytes + piece.len());
            if before <= self.line_bytes_max && after > self.line_bytes_max {
                self.diagnostics.record_oversized();
            }
            // Messages are JSON objects, so a line that starts with another character is stray output.
            if before == 0 && !piece.trim_ascii().starts_with(b"{") || !self.stray_line.is_empty() {
                let room = STRAY_BYTES_MAX.saturating_sub(self.stray_line.len());
                self.stray_line.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            let ended = piece.ends_with(b"\n");
            if (ended || self.stray_line.len() == STRAY_BYTES_MAX) && !self.stray_line.trim_ascii().is_empty()
            {
                self.diagnostics.record_stray_output(&self.stray_line);
            }
            self.line_bytes = if ended { 0 } else { after };
            if ended {
                self.stray_line.clear();
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MonitoredReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.lines).poll_read(context, buffer);
        if polled.is_ready() {
            self.inspect(&buffer.filled()[before..]);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], oversized: bool, stray_output: Option<&str>) {
        let diagnostics = Arc::new(Diagnostics::default());
        let lost = diagnostics.next_oversized();
        let mut reader = MonitoredReader::new((), diagnostics.clone(), 10);
        pieces.iter().for_each(|piece| reader.inspect(piece.as_bytes()));
        let mut lost = std::pin::pin!(lost);
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert_eq!(lost.as_mut().poll(&mut context).is_ready(), oversized, "{pieces:?}");
        assert_eq!(diagnostics.first_stray_output().as_deref(), stray_output, "{pieces:?}");
    }

    #[test]
    fn messages_pass_and_irregular_output_is_recorded() {
        check(&["{\"a\": 1}\n{\"b\"", ": 2}\n"], false, None);
        check(&["\n  {}\n"], false, None);
        check(&["{\"a\": 123}\n"], true, None);
        check(&["{\"a\"", ": 12", "34}", "\n{}\n"], true, None);
        check(&["read", "y\n{}\nmore\n"], false, Some("ready"));
        check(&["ready"], false, None);
    }
}

//! Writes a reply to the socket: framing, pauses and cuts.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Size of a block of a flood: large enough to be fast, small enough to use little memory.
pub(crate) const FLOOD_BLOCK_BYTES: u64 = 16 * 1024;

/// The way in which a client finds the end of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Whether a write was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All bytes were written.
    Whole,
    /// The write stopped at the step's byte limit.
    Cut,
}

/// Writes a body in its framing. Bytes are sent at the next flush.
/// A head and a short body are one write, and so are the last event and the end of a stream. Otherwise a
/// client would wait for an end that is already due.
pub(crate) struct HttpWriter<'a> {
    stream: &'a mut TcpStream,
    framing: Framing,
    trickle: Option<(usize, Duration)>,
    /// Number of body bytes that may still be sent; `None` for no limit.
    budget: Option<usize>,
    pending: Vec<u8>,
}

impl<'a> HttpWriter<'a> {
    pub(crate) fn new(
        stream: &'a mut TcpStream,
        framing: Framing,
        trickle: Option<(usize, Duration)>,
        budget: Option<usize>,
    ) -> Self {
        Self { stream, framing, trickle, budget, pending: Vec::new() }
    }

    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        self.stream
    }

    pub(crate) fn head(&mut self, head: &str) {
        self.pending.extend_from_slice(head.as_bytes());
    }

    /// Adds a piece of the body, in several writes if the step trickles.
    pub(crate) async fn put(&mut self, piece: &[u8]) -> io::Result<Sent> {
        let Some((bytes, pause)) = self.trickle else {
            return Ok(self.frame(piece));
        };
        for part in piece.chunks(bytes) {
            if self.frame(part) == Sent::Cut {
                return Ok(Sent::Cut);
            }
            self.flush().await?;
            if pause.is_zero() {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(pause).await;
            }
        }
        Ok(Sent::Whole)
    }

    fn frame(&mut self, part: &[u8]) -> Sent {
        if part.is_empty() {
            return Sent::Whole;
        }
        if self.framing == Framing::Chunked {
            self.pending.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        }
        if let Some(budget) = &mut self.budget {
            if *budget < part.len() {
                self.pending.extend_from_slice(&part[..*budget]);
                return Sent::Cut;
            }
            *budget -= part.len();
        }
        self.pending.extend_from_slice(part);
        if self.framing == Framing::Chunked {
            self.pending.extend_from_slice(b"\r\n");
        }
        Sent::Whole
    }

    /// Ends the body and sends all pending bytes.
    pub(crate) async fn end(&mut self) -> io::Result<()> {
        if self.framing == Framing::Chunked {
            self.pending.extend_from_slice(b"0\r\n\r\n");
        }
        self.flush().await
    }

    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            self.stream.write_all(&self.pending).await?;
            self.pending.clear();
        }
        Ok(())
    }
}

/// Returns the status line and headers.
pub(crate) fn head(
    status: u16,
    content_type: &str,
    headers: &[(String, String)],
    framing: Framing,
) -> String {
    let mut head = format!("HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\n", reason(status));
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let _ = match framing {
        Framing::Length(bytes) => write!(head, "Content-Length: {bytes}\r\n\r\n"),
        Framing::Chunked => write!(head, "Transfer-Encoding: chunked\r\n\r\n"),
        Framing::UntilClose => write!(head, "Connection: close\r\n\r\n"),
    };
    head
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        599 => "Script Exhausted",
        _ => "Scripted",
    }
}

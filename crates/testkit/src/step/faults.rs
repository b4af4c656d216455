//! Faults of a reply on its way to the client.
//!
//! Methods that count chunks count the events of a stream. The first one is `message_start` in messages, and
//! the delta with the role in chat completions. Keep-alives do not count, and the body of a plain reply is
//! one chunk. A number beyond the last chunk means the last one, so that a requested fault always occurs.

use std::time::Duration;

use super::{Step, StepKind};
use crate::gate::Gate;

impl Step {
    /// Replies with a status. The body is the protocol's error object unless [`Step::body`] sets one.
    pub fn status(code: u16) -> Self {
        let mut step = Self::with_kind(StepKind::Status);
        step.status = code;
        step
    }

    /// Redirects (307) to this location.
    pub fn redirect(location: &str) -> Self {
        Self::status(307).header("Location", location).body("")
    }

    /// Replies with status 200 and an HTML page, as proxies and login walls do.
    pub fn html() -> Self {
        Self::status(200)
            .content_type("text/html; charset=utf-8")
            .body("<!doctype html><title>Welcome</title>")
    }

    /// Sends exactly these bytes, including the status line, and closes the connection.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::with_kind(StepKind::Raw(bytes.into()))
    }

    /// Reads the request and closes the connection without a reply.
    pub fn close() -> Self {
        Self::with_kind(StepKind::Close)
    }

    /// Reads the request and never replies.
    pub fn hang() -> Self {
        Self::with_kind(StepKind::Hang)
    }

    /// Replies with a valid answer that has this many bytes of text.
    pub fn oversized(bytes: u64) -> Self {
        Self::with_kind(StepKind::Flood(Some(bytes)))
    }

    /// Replies with an endless text, until the client disconnects.
    pub fn endless() -> Self {
        Self::with_kind(StepKind::Flood(None))
    }

    /// Replaces the body of the reply.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the content type.
    #[must_use]
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.content_type = Some(content_type.to_owned());
        self
    }

    /// Waits before sending the headers.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delivery.delay = Some(delay);
        self
    }

    /// Waits for the gate before sending the headers.
    #[must_use]
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.delivery.gate = Some(gate.clone());
        self
    }

    /// Waits for the gate after sending this many chunks.
    #[must_use]
    pub fn gate_after(mut self, chunks: usize, gate: &Gate) -> Self {
        self.delivery.gates.push((chunks, gate.clone()));
        self
    }

    /// Sends this many chunks, then nothing more, and keeps the connection open until the client disconnects.
    #[must_use]
    pub fn stall_after(mut self, chunks: usize) -> Self {
        self.delivery.stall_after = Some(chunks);
        self
    }

    /// Closes the connection after sending this many chunks.
    #[must_use]
    pub fn cut_after(mut self, chunks: usize) -> Self {
        self.delivery.cut_after = Some(chunks);
        self
    }

    /// Announces the whole body, sends this many bytes of it, and closes the connection.
    #[must_use]
    pub fn cut_body(mut self, bytes: usize) -> Self {
        self.delivery.cut_body = Some(bytes);
        self
    }

    /// Ends the body by closing the connection, without a length or chunked encoding. With
    /// [`Step::cut_after`], HTTP cannot distinguish the cut from a normal end.
    #[must_use]
    pub fn until_close(mut self) -> Self {
        self.delivery.until_close = true;
        self
    }

    /// Sends the whole reply without announcing a close, then closes the connection, so that a client's pool
    /// keeps a dead connection.
    #[must_use]
    pub fn hang_up(mut self) -> Self {
        self.delivery.hang_up = true;
        self
    }

    /// Resets the connection instead of closing it.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.delivery.reset = true;
        self
    }

    /// Sends the body in writes of this many bytes with a pause in between, splitting lines and characters.
    /// Each write of a stream is its own HTTP chunk, so that clients see the same pieces even if the network
    /// joins them.
    #[must_use]
    pub fn trickle(mut self, bytes_per_write: usize, pause: Duration) -> Self {
        self.delivery.trickle = Some((bytes_per_write.max(1), pause));
        self
    }

    /// Splits writes like [`Step::trickle`], without a pause.
    #[must_use]
    pub fn split_writes(self, bytes_per_write: usize) -> Self {
        self.trickle(bytes_per_write, Duration::ZERO)
    }

    /// Ends a stream without `[DONE]` or `message_stop`.
    #[must_use]
    pub fn without_done(mut self) -> Self {
        self.stream.without_done = true;
        self
    }

    /// Inserts this line into a stream as its own event, after this many chunks.
    #[must_use]
    pub fn malformed_chunk(mut self, after: usize, line: &str) -> Self {
        self.stream.malformed.push((after, line.to_owned()));
        self
    }

    /// Replaces the rest of a stream after this many chunks by the protocol's error event. A plain reply
    /// becomes the error object with status 200, as some gateways send it.
    #[must_use]
    pub fn error_after(mut self, chunks: usize, message: &str) -> Self {
        self.stream.error_after = Some((chunks, message.to_owned()));
        self
    }

    /// Inserts a keep-alive before every event: the comment `: ping`, and in messages also a `ping` event.
    #[must_use]
    pub fn pings(mut self) -> Self {
        self.stream.pings = true;
        self
    }

    /// Ends the lines of a stream with CR LF.
    #[must_use]
    pub fn crlf(mut self) -> Self {
        self.stream.crlf = true;
        self
    }

    /// Writes the fields of a stream as `data:{…}`, without the optional space.
    #[must_use]
    pub fn without_space(mut self) -> Self {
        self.stream.without_space = true;
        self
    }
}

//! What can go wrong on a reply's way.
//!
//! Where a method counts chunks, a chunk is one event of a stream: in messages `message_start` is the first, in chat
//! completions the delta with the role. Keep-alives do not count. A plain reply's body is one chunk. A number beyond the last chunk means
//! the last, so that a fault that was asked for always happens.

use std::time::Duration;

use super::{Kind, Step};
use crate::gate::Gate;

impl Step {
    /// A bare status. Its body is the protocol's error object unless [`Step::body`] gives one.
    pub fn status(code: u16) -> Self {
        let mut step = Self::of(Kind::Status);
        step.status = code;
        step
    }

    /// A redirection (307) to this location.
    pub fn redirect(location: &str) -> Self {
        Self::status(307).header("Location", location).body("")
    }

    /// A page for people where an answer was due, as proxies and login walls send it: status 200, HTML.
    pub fn html() -> Self {
        Self::status(200)
            .content_type("text/html; charset=utf-8")
            .body("<!doctype html><title>Welcome</title>")
    }

    /// Exactly these bytes, status line and all, and then the end of the connection.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::of(Kind::Raw(bytes.into()))
    }

    /// Reads the request and closes the connection without a word.
    pub fn close() -> Self {
        Self::of(Kind::Close)
    }

    /// Reads the request and never answers.
    pub fn hang() -> Self {
        Self::of(Kind::Hang)
    }

    /// A valid answer with this many bytes of text.
    pub fn oversized(bytes: u64) -> Self {
        Self::of(Kind::Flood(Some(bytes)))
    }

    /// An answer whose text never ends; the server sends until the client goes away.
    pub fn endless() -> Self {
        Self::of(Kind::Flood(None))
    }

    /// The whole body, instead of the one that the step would have.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The content type, right or wrong.
    #[must_use]
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.content_type = Some(content_type.to_owned());
        self
    }

    /// Waits before the headers.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delivery.delay = Some(delay);
        self
    }

    /// Waits before the headers until the gate lets it through.
    #[must_use]
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.delivery.gate = Some(gate.clone());
        self
    }

    /// Sends this many chunks and waits for the gate before the rest.
    #[must_use]
    pub fn gate_after(mut self, chunks: usize, gate: &Gate) -> Self {
        self.delivery.gates.push((chunks, gate.clone()));
        self
    }

    /// Sends this many chunks, then nothing more, and keeps the connection open until the client goes away.
    #[must_use]
    pub fn stall_after(mut self, chunks: usize) -> Self {
        self.delivery.stall_after = Some(chunks);
        self
    }

    /// Sends this many chunks and closes the connection.
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

    /// Frames the body by the end of the connection, without a length or chunked encoding. With [`Step::cut_after`] a cut
    /// then looks like a proper end to HTTP.
    #[must_use]
    pub fn until_close(mut self) -> Self {
        self.delivery.until_close = true;
        self
    }

    /// Replies in full as if the connection were to stay, then closes it: what a client's pool keeps is dead.
    #[must_use]
    pub fn hang_up(mut self) -> Self {
        self.delivery.hang_up = true;
        self
    }

    /// Where this step closes the connection, it resets it.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.delivery.reset = true;
        self
    }

    /// Sends the body so many bytes at a time with a pause in between, across lines and characters. Every write of a
    /// stream is an HTTP chunk of its own, so that clients see the same pieces whatever the network joins.
    #[must_use]
    pub fn trickle(mut self, bytes_per_write: usize, pause: Duration) -> Self {
        self.delivery.trickle = Some((bytes_per_write.max(1), pause));
        self
    }

    /// Like [`Step::trickle`], without a pause.
    #[must_use]
    pub fn split_writes(self, bytes_per_write: usize) -> Self {
        self.trickle(bytes_per_write, Duration::ZERO)
    }

    /// Ends a stream without `[DONE]`, or without `message_stop`.
    #[must_use]
    pub fn without_done(mut self) -> Self {
        self.stream.without_done = true;
        self
    }

    /// Puts this line into a stream as an event of its own, after so many chunks.
    #[must_use]
    pub fn malformed_chunk(mut self, after: usize, line: &str) -> Self {
        self.stream.malformed.push((after, line.to_owned()));
        self
    }

    /// Replaces the rest of a stream after so many chunks by the protocol's error event. A plain reply is then the error
    /// object under status 200, as gateways send it.
    #[must_use]
    pub fn error_after(mut self, chunks: usize, message: &str) -> Self {
        self.stream.error_after = Some((chunks, message.to_owned()));
        self
    }

    /// Puts a keep-alive before every event: the comment `: ping`, and in messages a `ping` event too.
    #[must_use]
    pub fn pings(mut self) -> Self {
        self.stream.pings = true;
        self
    }

    /// Ends a stream's lines with CR LF.
    #[must_use]
    pub fn crlf(mut self) -> Self {
        self.stream.crlf = true;
        self
    }

    /// Writes a stream's fields as `data:{…}`, without the customary space.
    #[must_use]
    pub fn without_space(mut self) -> Self {
        self.stream.without_space = true;
        self
    }
}

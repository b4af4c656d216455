//! Streams responses as server-sent events.
//!
//! Free text is passed on as the model writes it. Everything else is sent when it is valid: what was sent is never taken
//! back.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, interval_at};

use super::response::{Answer, Head, account, usage};
use crate::error::ApiError;
use crate::in_flight::{Finished, Waiter};

/// The interval of chunks that keep the connection open. Comments would break some clients.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The stream of a response.
pub(crate) struct ChatStream {
    head: Head,
    include_usage: bool,
    choices: u32,
    /// The text of a free answer as it is written.
    deltas: Option<mpsc::UnboundedReceiver<String>>,
    end: Pin<Box<dyn Future<Output = Finished> + Send>>,
    keep_alive: Interval,
    queue: VecDeque<Bytes>,
    has_begun: bool,
    /// The text that was sent.
    sent: String,
    is_over: bool,
}

impl ChatStream {
    /// Creates the stream of a request under way.
    pub(crate) fn new(
        head: Head,
        include_usage: bool,
        choices: u32,
        deltas: Option<mpsc::UnboundedReceiver<String>>,
        waiter: Waiter,
    ) -> ChatStream {
        ChatStream {
            head,
            include_usage,
            choices,
            deltas,
            end: Box::pin(async move { waiter.finished().await }),
            keep_alive: interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE),
            queue: VecDeque::new(),
            has_begun: false,
            sent: String::new(),
            is_over: false,
        }
    }

    /// Queues the first chunks at once, so that a client that has waited reads something, and a first piece of text.
    pub(crate) fn begin_with(&mut self, first: Option<String>) {
        self.begin();
        if let Some(piece) = first {
            self.add_text(&piece);
        }
    }

    /// Returns the stream as a response.
    pub(crate) fn into_response(self) -> Response {
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        (headers, Body::new(self)).into_response()
    }

    /// Queues the first chunk of each choice, which has the role.
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            for index in 0..self.choices as usize {
                self.delta(index, &json!({"role": "assistant", "content": ""}));
            }
        }
    }

    fn delta(&mut self, index: usize, delta: &Value) {
        let choice = json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null});
        self.chunk(vec![choice], None);
    }

    fn chunk(&mut self, choices: Vec<Value>, more: Option<(&str, Value)>) {
        let Head { id, created, model } = &self.head;
        let mut chunk = json!({
            "id": id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        if let Some((name, value)) = more {
            chunk[name] = value;
        }
        self.queue.push_back(event(&chunk.to_string()));
    }

    fn add_text(&mut self, piece: &str) {
        self.begin();
        self.sent.push_str(piece);
        self.delta(0, &json!({"content": piece}));
    }

    fn finish(&mut self, finished: Finished) {
        self.is_over = true;
        match finished {
            Ok(answers) => self.finish_with(&answers),
            Err(error) => self.fail(&error),
        }
    }

    fn finish_with(&mut self, answers: &[Answer]) {
        let text = answers.first().and_then(|answer| answer.content.as_deref()).unwrap_or_default();
        if !text.starts_with(&self.sent) {
            let message = "the answer differs from the text that was already sent";
            return self.fail(&ApiError::new(502, "server_error", "backend_rejected", message));
        }
        self.begin();
        for (index, answer) in answers.iter().enumerate() {
            self.finish_choice(index, answer);
        }
        let choices = answers.iter().enumerate().map(|(index, answer)| {
            json!({"index": index, "delta": {}, "logprobs": null, "finish_reason": answer.finish_reason.name()})
        });
        self.chunk(choices.collect(), Some(("slipform", json!(account(answers)))));
        if self.include_usage {
            self.chunk(Vec::new(), Some(("usage", json!(usage(answers)))));
        }
        self.queue.push_back(event("[DONE]"));
    }

    /// Queues what was not sent of a choice.
    fn finish_choice(&mut self, index: usize, answer: &Answer) {
        let sent = if index == 0 { self.sent.len() } else { 0 };
        if let Some(rest) =
            answer.content.as_deref().and_then(|text| text.get(sent..)).filter(|rest| !rest.is_empty())
        {
            self.delta(index, &json!({"content": rest}));
        }
        if let Some(refusal) = &answer.refusal {
            self.delta(index, &json!({"refusal": refusal}));
        }
        for (position, call) in answer.tool_calls.iter().enumerate() {
            let function = json!({"name": call.name, "arguments": ""});
            let opened = json!({"index": position, "id": call.id, "type": "function", "function": function});
            self.delta(index, &json!({"tool_calls": [opened]}));
            let arguments = json!({"index": position, "function": {"arguments": call.arguments}});
            self.delta(index, &json!({"tool_calls": [arguments]}));
        }
    }

    /// Queues an error as the last event: no finish chunk and no end marker follow.
    fn fail(&mut self, error: &ApiError) {
        self.queue.push_back(event(&error.body().to_string()));
    }

    /// Queues what can be sent now. Returns false if nothing can.
    fn advance(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(deltas) = &mut self.deltas {
            match deltas.poll_recv(context) {
                Poll::Ready(Some(piece)) => {
                    self.add_text(&piece);
                    return true;
                }
                Poll::Ready(None) => self.deltas = None,
                Poll::Pending => {}
            }
        }
        if let Poll::Ready(finished) = self.end.as_mut().poll(context) {
            // Pieces that were sent before the end are in the channel.
            while let Some(piece) = self.deltas.as_mut().and_then(|deltas| deltas.try_recv().ok()) {
                self.add_text(&piece);
            }
            self.finish(finished);
            return true;
        }
        if self.keep_alive.poll_tick(context).is_ready() {
            self.begin();
            self.delta(0, &json!({}));
            return true;
        }
        false
    }
}

fn event(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

impl hyper::body::Body for ChatStream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(event))));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            if !self.advance(context) {
                return Poll::Pending;
            }
        }
    }
}

//! Encodes answers for each protocol. Ids and times depend only on the request's number, so that the same
//! script produces the same bytes.

mod chat;
mod completions;
mod messages;

use serde_json::{Value, json};

use crate::recorded::Recorded;
use crate::step::{Answer, Finish, ReplyPart, Usage};

/// Creation time of every reply, in seconds since 1970.
const CREATED: u64 = 1_700_000_000;

/// An HTTP protocol for model requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `/v1/chat/completions`.
    ChatCompletions,
    /// `/v1/completions`.
    Completions,
    /// `/v1/messages`, as in Anthropic's API.
    Messages,
}

/// The values that a reply takes from its request.
pub(crate) struct Context {
    pub(crate) model: String,
    pub(crate) index: usize,
    pub(crate) include_usage: bool,
}

impl Context {
    pub(crate) fn new(answer: &Answer, request: &Recorded, index: usize) -> Self {
        let requested = request.body["model"].as_str().unwrap_or("scripted-model");
        Self {
            model: answer.model.clone().unwrap_or_else(|| requested.to_owned()),
            index,
            include_usage: request.body["stream_options"]["include_usage"] == Value::Bool(true),
        }
    }
}

/// One event of a stream, before framing.
pub(crate) struct Event {
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
    /// Whether the event only marks the end of the stream.
    pub(crate) done: bool,
}

impl Event {
    fn data(value: &Value) -> Self {
        Self { name: None, data: value.to_string(), done: false }
    }

    fn done() -> Self {
        Self { name: None, data: "[DONE]".to_owned(), done: true }
    }

    fn named(name: &'static str, value: &Value) -> Self {
        Self { name: Some(name), data: value.to_string(), done: false }
    }
}

impl Protocol {
    /// Returns the protocol of a path, by its ending, because servers use different prefixes.
    pub(crate) fn of(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            Some(Self::ChatCompletions)
        } else if path.ends_with("/completions") {
            Some(Self::Completions)
        } else if path.ends_with("/messages") {
            Some(Self::Messages)
        } else {
            None
        }
    }

    pub(crate) fn plain(self, answer: &Answer, context: &Context) -> Value {
        match self {
            Self::ChatCompletions => chat::plain(answer, context),
            Self::Completions => completions::plain(answer, context),
            Self::Messages => messages::plain(answer, context),
        }
    }

    pub(crate) fn events(self, answer: &Answer, context: &Context) -> Vec<Event> {
        match self {
            Self::ChatCompletions => chat::events(answer, context),
            Self::Completions => completions::events(answer, context),
            Self::Messages => messages::events(answer, context),
        }
    }

    /// Returns the protocol's error object for a status. Status 200 means an error inside a reply that began
    /// normally.
    pub(crate) fn error(self, status: u16, message: &str) -> Value {
        match self {
            Self::ChatCompletions | Self::Completions => {
                json!({"error": {"message": message, "type": openai_error(status), "param": null, "code": null}})
            }
            Self::Messages => {
                json!({"type": "error", "error": {"type": messages::error_type(status), "message": message}})
            }
        }
    }

    pub(crate) fn error_event(self, message: &str) -> Event {
        let value = self.error(200, message);
        match self {
            Self::Messages => Event::named("error", &value),
            Self::ChatCompletions | Self::Completions => Event::data(&value),
        }
    }
}

fn openai_error(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        _ => "server_error",
    }
}

impl Answer {
    /// Returns all text parts, concatenated; `None` if the answer has no text part.
    fn text(&self) -> Option<String> {
        self.joined(|part| if let ReplyPart::Text(text) = part { Some(text) } else { None })
    }

    fn joined<'a>(&'a self, pick: impl Fn(&'a ReplyPart) -> Option<&'a String>) -> Option<String> {
        let texts: Vec<&str> = self.parts.iter().filter_map(|part| pick(part).map(String::as_str)).collect();
        if texts.is_empty() { None } else { Some(texts.concat()) }
    }

    /// Returns the finish reason in the terms of chat completions.
    fn finish_reason(&self) -> Option<&str> {
        match &self.finish {
            Finish::Reason(word) => Some(word),
            Finish::Absent => None,
            Finish::Natural if self.parts.iter().any(|part| matches!(part, ReplyPart::Tool { .. })) => {
                Some("tool_calls")
            }
            Finish::Natural => Some("stop"),
        }
    }

    /// Splits a text into the pieces that deltas carry.
    fn pieces<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let mut end = self.chunk_bytes.min(rest.len());
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            if end == 0 {
                end = rest.chars().next().map_or(rest.len(), char::len_utf8);
            }
            let (piece, after) = rest.split_at(end);
            pieces.push(piece);
            rest = after;
        }
        pieces
    }
}

/// Returns usage as chat and legacy completions report it; cached tokens are part of the prompt's.
fn openai_usage(usage: Usage) -> Value {
    let mut value = json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
    });
    if usage.cached > 0 {
        value["prompt_tokens_details"] = json!({"cached_tokens": usage.cached});
    }
    value
}

/// Returns the final usage chunk, if the request asked for it, and `[DONE]`.
fn openai_end(answer: &Answer, context: &Context, chunk: impl Fn(Value) -> Value) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(usage) = answer.usage.filter(|_| context.include_usage) {
        let mut last = chunk(json!([]));
        last["usage"] = openai_usage(usage);
        events.push(Event::data(&last));
    }
    events.push(Event::done());
    events
}

//! Steps: the content of a reply, its form and its faults.

mod faults;

use std::time::Duration;

use serde_json::Value;

use crate::gate::Gate;

/// Default number of bytes of text in a delta, small enough to split short answers.
const CHUNK_BYTES: usize = 16;

/// A reply to one request. Constructors choose the kind of reply, methods refine it.
#[derive(Clone, Debug)]
pub struct Step {
    pub(crate) kind: StepKind,
    pub(crate) answer: Answer,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) plain_only: bool,
    pub(crate) stream: StreamFaults,
    pub(crate) delivery: Delivery,
}

#[derive(Clone, Debug)]
pub(crate) enum StepKind {
    /// A model's answer, encoded for the request's protocol.
    Answer,
    /// A status with the given body or the protocol's error object.
    Status,
    /// An answer whose text has this many bytes; `None` for an endless one.
    Flood(Option<u64>),
    /// Raw bytes, then the end of the connection.
    Raw(Vec<u8>),
    /// The end of the connection without a reply.
    Close,
    /// No reply; the connection stays open.
    Hang,
}

/// The content of a model's answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) parts: Vec<ReplyPart>,
    pub(crate) finish: Finish,
    pub(crate) usage: Option<Usage>,
    pub(crate) model: Option<String>,
    pub(crate) chunk_bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum ReplyPart {
    Text(String),
    Reasoning(String),
    Refusal(String),
    Tool { name: String, arguments: Arguments },
}

#[derive(Clone, Debug)]
pub(crate) enum Finish {
    /// Derived from the parts.
    Natural,
    /// A given reason, in the terms of chat completions.
    Reason(String),
    /// No reason is sent.
    Absent,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cached: u64,
}

/// Faults and variations of a stream's events.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamFaults {
    pub(crate) without_done: bool,
    pub(crate) malformed: Vec<(usize, String)>,
    pub(crate) error_after: Option<(usize, String)>,
    pub(crate) pings: bool,
    pub(crate) crlf: bool,
    pub(crate) without_space: bool,
}

/// Time and manner of sending bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) delay: Option<Duration>,
    pub(crate) gate: Option<Gate>,
    pub(crate) gates: Vec<(usize, Gate)>,
    pub(crate) stall_after: Option<usize>,
    pub(crate) cut_after: Option<usize>,
    pub(crate) cut_body: Option<usize>,
    pub(crate) trickle: Option<(usize, Duration)>,
    pub(crate) until_close: bool,
    pub(crate) hang_up: bool,
    pub(crate) reset: bool,
}

/// The arguments of a tool call: a value, or raw text that need not be valid JSON.
#[derive(Clone, Debug)]
pub enum Arguments {
    /// Sent as compact JSON.
    Value(Value),
    /// Sent unchanged.
    Raw(String),
}

impl Arguments {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Value(value) => value.to_string(),
            Self::Raw(text) => text.clone(),
        }
    }

    /// Returns the arguments as a value; raw text that is not JSON becomes a string.
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Raw(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
        }
    }
}

impl From<Value> for Arguments {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<&str> for Arguments {
    fn from(text: &str) -> Self {
        Self::Raw(text.to_owned())
    }
}

impl From<String> for Arguments {
    fn from(text: String) -> Self {
        Self::Raw(text)
    }
}

impl Step {
    pub(crate) fn with_kind(kind: StepKind) -> Self {
        Self {
            kind,
            answer: Answer {
                parts: Vec::new(),
                finish: Finish::Natural,
                usage: Some(Usage { input: 10, output: 5, cached: 0 }),
                model: None,
                chunk_bytes: CHUNK_BYTES,
            },
            status: 200,
            headers: Vec::new(),
            content_type: None,
            body: None,
            plain_only: false,
            stream: StreamFaults::default(),
            delivery: Delivery::default(),
        }
    }

    fn part(mut self, part: ReplyPart) -> Self {
        self.answer.parts.push(part);
        self
    }

    /// Replies with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::with_kind(StepKind::Answer).and_text(text)
    }

    /// Replies with this value as compact JSON.
    pub fn json(value: &Value) -> Self {
        Self::text(value.to_string())
    }

    /// Calls a tool. Legacy completions have no tools, so the answer is empty there.
    pub fn tool(name: &str, arguments: impl Into<Arguments>) -> Self {
        Self::with_kind(StepKind::Answer).and_tool(name, arguments)
    }

    /// Replies with reasoning: `reasoning_content`, or a thinking block. Add the text with
    /// [`Step::and_text`].
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::with_kind(StepKind::Answer).part(ReplyPart::Reasoning(text.into()))
    }

    /// Refuses: `refusal` in chat completions, the stop reason `refusal` in messages.
    pub fn refusal(message: impl Into<String>) -> Self {
        Self::with_kind(StepKind::Answer).part(ReplyPart::Refusal(message.into()))
    }

    /// Adds a text part.
    #[must_use]
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.part(ReplyPart::Text(text.into()))
    }

    /// Adds a tool call.
    #[must_use]
    pub fn and_tool(self, name: &str, arguments: impl Into<Arguments>) -> Self {
        self.part(ReplyPart::Tool { name: name.to_owned(), arguments: arguments.into() })
    }

    /// Sets the finish reason in the terms of chat completions (`stop`, `length`, `tool_calls`,
    /// `content_filter`). Messages translate it (`end_turn`, `max_tokens`, `tool_use`, `refusal`) and send
    /// other words unchanged.
    #[must_use]
    pub fn finish(mut self, word: &str) -> Self {
        self.answer.finish = Finish::Reason(word.to_owned());
        self
    }

    /// Sends no finish reason, although the answer ends normally.
    #[must_use]
    pub fn without_finish(mut self) -> Self {
        self.answer.finish = Finish::Absent;
        self
    }

    /// Sets the reported tokens; the default is 10 input and 5 output tokens.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        let cached = self.answer.usage.map_or(0, |usage| usage.cached);
        self.answer.usage = Some(Usage { input, output, cached });
        self
    }

    /// Sets the number of cached input tokens. Messages count them in addition to the input.
    #[must_use]
    pub fn cached(mut self, cached: u64) -> Self {
        if let Some(usage) = &mut self.answer.usage {
            usage.cached = cached;
        }
        self
    }

    /// Reports no usage.
    #[must_use]
    pub fn without_usage(mut self) -> Self {
        self.answer.usage = None;
        self
    }

    /// Sets the model's name in the reply; the default is the request's.
    #[must_use]
    pub fn model(mut self, name: &str) -> Self {
        self.answer.model = Some(name.to_owned());
        self
    }

    /// Sets the maximum number of bytes of text in a delta. Characters are never split, so a longer one is
    /// sent alone. To split characters, use [`Step::trickle`].
    #[must_use]
    pub fn chunk_bytes(mut self, bytes: usize) -> Self {
        self.answer.chunk_bytes = bytes.max(1);
        self
    }

    /// Replies without streaming, even if the request asks for a stream.
    #[must_use]
    pub fn plain_only(mut self) -> Self {
        self.plain_only = true;
        self
    }
}

//! One reply: what the model says, how it is told, and what goes wrong.

mod faults;

use std::time::Duration;

use serde_json::Value;

use crate::gate::Gate;

/// How many bytes of text a delta carries unless told otherwise: few, so that short answers still come in parts.
const CHUNK_BYTES: usize = 16;

/// A reply to one request. Made by the functions that name a kind of reply, refined by the methods.
#[derive(Clone, Debug)]
pub struct Step {
    pub(crate) kind: Kind,
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
pub(crate) enum Kind {
    /// What `answer` says, in the words of the request's protocol.
    Answer,
    /// A status with the given body, or the protocol's error object.
    Status,
    /// An answer whose text has this many bytes, or never ends.
    Flood(Option<u64>),
    /// These bytes and the end of the connection.
    Raw(Vec<u8>),
    /// The end of the connection.
    Close,
    /// Nothing at all.
    Hang,
}

/// What the model says.
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
    /// What follows from the parts.
    Natural,
    /// As asked for, in chat completions' words.
    Word(String),
    /// None is said.
    Absent,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cached: u64,
}

/// What is wrong or unusual in a stream's events.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamFaults {
    pub(crate) without_done: bool,
    pub(crate) malformed: Vec<(usize, String)>,
    pub(crate) error_after: Option<(usize, String)>,
    pub(crate) pings: bool,
    pub(crate) crlf: bool,
    pub(crate) without_space: bool,
}

/// When and how bytes are sent.
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

/// A tool call's arguments: a value, or the text that a model wrote, valid or not.
#[derive(Clone, Debug)]
pub enum Arguments {
    /// Sent as compact JSON.
    Value(Value),
    /// Sent as it stands.
    Raw(String),
}

impl Arguments {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Value(value) => value.to_string(),
            Self::Raw(text) => text.clone(),
        }
    }

    /// As a value, which is a string when the text is no JSON.
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
    pub(crate) fn of(kind: Kind) -> Self {
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

    /// The model says this.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(Kind::Answer).and_text(text)
    }

    /// The model says this value as compact JSON.
    pub fn json(value: &Value) -> Self {
        Self::text(value.to_string())
    }

    /// The model calls a tool. Legacy completions know no tools: there the answer is empty.
    pub fn tool(name: &str, arguments: impl Into<Arguments>) -> Self {
        Self::of(Kind::Answer).and_tool(name, arguments)
    }

    /// The model thinks aloud: `reasoning_content`, or a thinking block. Goes before [`Step::and_text`].
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::of(Kind::Answer).part(ReplyPart::Reasoning(text.into()))
    }

    /// The model declines: `refusal` in chat completions, the stop reason `refusal` in messages.
    pub fn refusal(message: impl Into<String>) -> Self {
        Self::of(Kind::Answer).part(ReplyPart::Refusal(message.into()))
    }

    /// Says this too.
    #[must_use]
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.part(ReplyPart::Text(text.into()))
    }

    /// Calls this tool too.
    #[must_use]
    pub fn and_tool(self, name: &str, arguments: impl Into<Arguments>) -> Self {
        self.part(ReplyPart::Tool { name: name.to_owned(), arguments: arguments.into() })
    }

    /// Why the answer ends, in chat completions' words (`stop`, `length`, `tool_calls`, `content_filter`), which messages
    /// translate (`end_turn`, `max_tokens`, `tool_use`, `refusal`). Other words are sent as they are.
    #[must_use]
    pub fn finish(mut self, word: &str) -> Self {
        self.answer.finish = Finish::Word(word.to_owned());
        self
    }

    /// Never says why the answer ends, though it ends properly.
    #[must_use]
    pub fn without_finish(mut self) -> Self {
        self.answer.finish = Finish::Absent;
        self
    }

    /// The tokens to report; 10 and 5 unless told.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        let cached = self.answer.usage.map_or(0, |usage| usage.cached);
        self.answer.usage = Some(Usage { input, output, cached });
        self
    }

    /// How many of the input tokens came from a cache. Messages count these beside the input, as that protocol does.
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

    /// The model's name in the reply; the request's unless told.
    #[must_use]
    pub fn model(mut self, name: &str) -> Self {
        self.answer.model = Some(name.to_owned());
        self
    }

    /// How many bytes of text a delta carries at most; a character is never split, so that one longer than this is sent
    /// alone. To split characters, see [`Step::trickle`].
    #[must_use]
    pub fn chunk_bytes(mut self, bytes: usize) -> Self {
        self.answer.chunk_bytes = bytes.max(1);
        self
    }

    /// Answers in one piece even when a stream was asked for.
    #[must_use]
    pub fn plain_only(mut self) -> Self {
        self.plain_only = true;
        self
    }
}

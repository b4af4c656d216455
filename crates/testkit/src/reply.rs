//! Builds the HTTP reply of a step.

use serde_json::Value;

use crate::events;
use crate::protocol::{Context, Protocol};
use crate::recorded::Recorded;
use crate::step::{ReplyPart, Step, StepKind};

/// A placeholder for a flood's text, which occurs nowhere else in a reply.
const FLOOD_MARK: &str = "@@flood@@";

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: ReplyBody,
}

pub(crate) enum ReplyBody {
    /// A body with a known length, which the reply announces.
    Plain(Vec<u8>),
    /// A stream, one element per chunk.
    Stream(Vec<Vec<u8>>),
    Flood(Flood),
}

/// A body too long to hold in memory. The text between `head` and `tail` is generated while it is sent.
pub(crate) struct Flood {
    pub(crate) streams: bool,
    pub(crate) head: Vec<u8>,
    /// The bytes before and after each piece of the text.
    pub(crate) delimiters: (Vec<u8>, Vec<u8>),
    pub(crate) tail: Vec<u8>,
    /// Number of bytes of text; `None` for an endless one.
    pub(crate) bytes: Option<u64>,
}

impl Reply {
    /// Returns the reply; `None` if the step sends none.
    pub(crate) fn new(step: &Step, request: &Recorded, index: usize) -> Option<Self> {
        // A route may lie outside any protocol; its errors look like those of chat completions.
        let protocol = request.protocol().unwrap_or(Protocol::ChatCompletions);
        let streams = request.streams() && !step.plain_only;
        let context = Context::new(&step.answer, request, index);
        let body = match (&step.kind, &step.body) {
            (StepKind::Raw(_) | StepKind::Close | StepKind::Hang, _) => return None,
            (_, Some(body)) => ReplyBody::Plain(body.clone()),
            (StepKind::Status, None) => {
                let message = format!("scripted status {}", step.status);
                ReplyBody::Plain(json_bytes(&protocol.error(step.status, &message)))
            }
            (StepKind::Answer, None) if streams => {
                ReplyBody::Stream(events::encode(protocol, &step.answer, &context, &step.stream))
            }
            (StepKind::Answer, None) => ReplyBody::Plain(json_bytes(&match &step.stream.error_after {
                Some((_, message)) => protocol.error(200, message),
                None => protocol.plain(&step.answer, &context),
            })),
            (StepKind::Flood(bytes), None) => {
                ReplyBody::Flood(flood(step, protocol, &context, *bytes, streams))
            }
        };
        let streamed = match &body {
            ReplyBody::Plain(_) => false,
            ReplyBody::Stream(_) => true,
            ReplyBody::Flood(flood) => flood.streams,
        };
        let usual = if streamed { "text/event-stream" } else { "application/json" };
        Some(Self {
            status: step.status,
            content_type: step.content_type.clone().unwrap_or_else(|| usual.to_owned()),
            headers: step.headers.clone(),
            body,
        })
    }
}

fn json_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn flood(step: &Step, protocol: Protocol, context: &Context, bytes: Option<u64>, streams: bool) -> Flood {
    let mut answer = step.answer.clone();
    answer.parts = vec![ReplyPart::Text(FLOOD_MARK.to_owned())];
    answer.chunk_bytes = FLOOD_MARK.len();
    if !streams {
        let text = protocol.plain(&answer, context).to_string();
        let (head, tail) = text.split_once(FLOOD_MARK).unwrap_or((&text, ""));
        let delimiters = (Vec::new(), Vec::new());
        return Flood { streams, head: head.into(), delimiters, tail: tail.into(), bytes };
    }
    let blocks = events::encode(protocol, &answer, context, &step.stream);
    let text = |block: &Vec<u8>| String::from_utf8_lossy(block).into_owned();
    let at = blocks.iter().position(|block| text(block).contains(FLOOD_MARK)).unwrap_or_default();
    let marked = text(&blocks[at]);
    let (before, after) = marked.split_once(FLOOD_MARK).unwrap_or((&marked, ""));
    Flood {
        streams,
        head: blocks[..at].concat(),
        delimiters: (before.into(), after.into()),
        tail: blocks[at + 1..].concat(),
        bytes,
    }
}

//! A step as an HTTP reply.

use serde_json::Value;

use crate::events;
use crate::protocol::{Context, Protocol};
use crate::recorded::Recorded;
use crate::step::{Kind, ReplyPart, Step};

/// Stands for a flood's text until it is sent; nothing else in a reply looks like it.
const FLOOD_MARK: &str = "@@flood@@";

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: EventBody,
}

pub(crate) enum EventBody {
    /// Has a length that is known and announced.
    Plain(Vec<u8>),
    /// One element for each chunk.
    Stream(Vec<Vec<u8>>),
    Flood(Flood),
}

/// A body too long to be held in memory: the text between `head` and `tail` is made while it is sent.
pub(crate) struct Flood {
    pub(crate) streams: bool,
    pub(crate) head: Vec<u8>,
    /// What surrounds each piece of the text.
    pub(crate) around: (Vec<u8>, Vec<u8>),
    pub(crate) tail: Vec<u8>,
    /// How many bytes of text; none for no end.
    pub(crate) bytes: Option<u64>,
}

impl Reply {
    /// The reply, or none where the step sends none.
    pub(crate) fn new(step: &Step, request: &Recorded, index: usize) -> Option<Self> {
        // A route may answer outside any protocol; then errors look like chat completions'.
        let protocol = request.protocol().unwrap_or(Protocol::ChatCompletions);
        let streams = request.streams() && !step.plain_only;
        let context = Context::new(&step.answer, request, index);
        let body = match (&step.kind, &step.body) {
            (Kind::Raw(_) | Kind::Close | Kind::Hang, _) => return None,
            (_, Some(body)) => EventBody::Plain(body.clone()),
            (Kind::Status, None) => {
                let message = format!("scripted status {}", step.status);
                EventBody::Plain(json_bytes(&protocol.error(step.status, &message)))
            }
            (Kind::Answer, None) if streams => {
                EventBody::Stream(events::encode(protocol, &step.answer, &context, &step.stream))
            }
            (Kind::Answer, None) => EventBody::Plain(json_bytes(&match &step.stream.error_after {
                Some((_, message)) => protocol.error(200, message),
                None => protocol.plain(&step.answer, &context),
            })),
            (Kind::Flood(bytes), None) => EventBody::Flood(flood(step, protocol, &context, *bytes, streams)),
        };
        let streamed = match &body {
            EventBody::Plain(_) => false,
            EventBody::Stream(_) => true,
            EventBody::Flood(flood) => flood.streams,
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
        let around = (Vec::new(), Vec::new());
        return Flood { streams, head: head.into(), around, tail: tail.into(), bytes };
    }
    let blocks = events::encode(protocol, &answer, context, &step.stream);
    let text = |block: &Vec<u8>| String::from_utf8_lossy(block).into_owned();
    let at = blocks.iter().position(|block| text(block).contains(FLOOD_MARK)).unwrap_or_default();
    let marked = text(&blocks[at]);
    let (before, after) = marked.split_once(FLOOD_MARK).unwrap_or((&marked, ""));
    Flood {
        streams,
        head: blocks[..at].concat(),
        around: (before.into(), after.into()),
        tail: blocks[at + 1..].concat(),
        bytes,
    }
}

//! Encodes legacy completions. They carry text only: a refusal becomes text, reasoning and tool calls are
//! omitted.

use serde_json::{Value, json};

use super::{CREATED, Context, Event, openai_end, openai_usage};
use crate::step::{Answer, ReplyPart};

pub(super) fn plain(answer: &Answer, context: &Context) -> Value {
    let choices = json!([choice(&text(answer), answer.finish_reason())]);
    let mut reply = chunk(context, &choices);
    if let Some(usage) = answer.usage {
        reply["usage"] = openai_usage(usage);
    }
    reply
}

pub(super) fn events(answer: &Answer, context: &Context) -> Vec<Event> {
    let chunk = |choices: Value| {
        let mut value = chunk(context, &choices);
        if context.include_usage {
            value["usage"] = Value::Null;
        }
        value
    };
    let text = text(answer);
    let pieces = answer.pieces(&text).into_iter();
    let mut events: Vec<Event> =
        pieces.map(|piece| Event::data(&chunk(json!([choice(piece, None)])))).collect();
    if let Some(reason) = answer.finish_reason() {
        events.push(Event::data(&chunk(json!([choice("", Some(reason))]))));
    }
    events.extend(openai_end(answer, context, chunk));
    events
}

fn text(answer: &Answer) -> String {
    let joined = answer.joined(|part| match part {
        ReplyPart::Text(text) | ReplyPart::Refusal(text) => Some(text),
        ReplyPart::Reasoning(_) | ReplyPart::Tool { .. } => None,
    });
    joined.unwrap_or_default()
}

fn choice(text: &str, finish_reason: Option<&str>) -> Value {
    json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish_reason})
}

fn chunk(context: &Context, choices: &Value) -> Value {
    json!({
        "id": format!("cmpl-{}", context.index),
        "object": "text_completion",
        "created": CREATED,
        "model": context.model,
        "choices": choices,
    })
}

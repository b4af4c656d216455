//! Encodes messages, Anthropic's protocol.

use serde_json::{Value, json};

use super::{Context, Event};
use crate::step::{Answer, Finish, ReplyPart, Usage};

/// A placeholder for the signature of thinking blocks, which clients pass on unread.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

pub(super) fn plain(answer: &Answer, context: &Context) -> Value {
    let content: Vec<Value> =
        answer.parts.iter().enumerate().map(|(number, part)| whole_block(part, context, number)).collect();
    let mut message = message(context, content);
    message["stop_reason"] = json!(stop_reason(answer));
    if let Some(usage) = answer.usage {
        message["usage"] = whole_usage(usage);
    }
    message
}

pub(super) fn events(answer: &Answer, context: &Context) -> Vec<Event> {
    let mut opening = message(context, Vec::new());
    if let Some(usage) = answer.usage {
        // The real service reports one output token before it knows the count.
        opening["usage"] = whole_usage(Usage { output: 1, ..usage });
    }
    let mut events =
        vec![Event::named("message_start", &json!({"type": "message_start", "message": opening}))];
    for (index, part) in answer.parts.iter().enumerate() {
        events.push(Event::named(
            "content_block_start",
            &json!({
                "type": "content_block_start", "index": index, "content_block": empty_block(part, context, index),
            }),
        ));
        events.extend(deltas(answer, part).into_iter().map(|delta| {
            let data = json!({"type": "content_block_delta", "index": index, "delta": delta});
            Event::named("content_block_delta", &data)
        }));
        let stop = json!({"type": "content_block_stop", "index": index});
        events.push(Event::named("content_block_stop", &stop));
    }
    if let Some(reason) = stop_reason(answer) {
        let mut delta = json!({
            "type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
        });
        if let Some(usage) = answer.usage {
            delta["usage"] = json!({"output_tokens": usage.output});
        }
        events.push(Event::named("message_delta", &delta));
    }
    let stop = Event::named("message_stop", &json!({"type": "message_stop"}));
    events.push(Event { done: true, ..stop });
    events
}

pub(super) fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        // Errors inside a stream are usually overloads.
        200 | 529 => "overloaded_error",
        _ => "api_error",
    }
}

fn stop_reason(answer: &Answer) -> Option<&str> {
    let refused = answer.parts.iter().any(|part| matches!(part, ReplyPart::Refusal(_)));
    if refused && matches!(answer.finish, Finish::Natural) {
        return Some("refusal");
    }
    answer.finish_reason().map(|word| match word {
        "stop" => "end_turn",
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        "content_filter" => "refusal",
        other => other,
    })
}

fn message(context: &Context, content: Vec<Value>) -> Value {
    json!({
        "id": format!("msg_{}", context.index),
        "type": "message",
        "role": "assistant",
        "model": context.model,
        "content": content,
        "stop_reason": null,
        "stop_sequence": null,
    })
}

fn whole_usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    })
}

fn whole_block(part: &ReplyPart, context: &Context, number: usize) -> Value {
    match part {
        ReplyPart::Text(text) | ReplyPart::Refusal(text) => json!({"type": "text", "text": text}),
        ReplyPart::Reasoning(text) => json!({"type": "thinking", "thinking": text, "signature": SIGNATURE}),
        ReplyPart::Tool { name, arguments } => {
            json!({"type": "tool_use", "id": tool_id(context, number), "name": name, "input": arguments.value()})
        }
    }
}

fn empty_block(part: &ReplyPart, context: &Context, number: usize) -> Value {
    match part {
        ReplyPart::Text(_) | ReplyPart::Refusal(_) => json!({"type": "text", "text": ""}),
        ReplyPart::Reasoning(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
        ReplyPart::Tool { name, .. } => {
            json!({"type": "tool_use", "id": tool_id(context, number), "name": name, "input": {}})
        }
    }
}

fn deltas(answer: &Answer, part: &ReplyPart) -> Vec<Value> {
    match part {
        ReplyPart::Text(text) | ReplyPart::Refusal(text) => {
            let pieces = answer.pieces(text).into_iter();
            pieces.map(|piece| json!({"type": "text_delta", "text": piece})).collect()
        }
        ReplyPart::Reasoning(text) => {
            let pieces = answer.pieces(text).into_iter();
            let thoughts = pieces.map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
            let signature = json!({"type": "signature_delta", "signature": SIGNATURE});
            thoughts.chain([signature]).collect()
        }
        ReplyPart::Tool { arguments, .. } => {
            let text = arguments.text();
            let pieces = answer.pieces(&text).into_iter();
            pieces.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect()
        }
    }
}

fn tool_id(context: &Context, number: usize) -> String {
    format!("toolu_{}_{number}", context.index)
}

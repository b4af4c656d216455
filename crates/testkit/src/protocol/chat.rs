//! Encodes chat completions.

use serde_json::{Map, Value, json};

use super::{CREATED, Context, Event, openai_end, openai_usage};
use crate::step::{Answer, Arguments, ReplyPart};

pub(super) fn plain(answer: &Answer, context: &Context) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.insert("content".to_owned(), json!(answer.text()));
    message.insert("refusal".to_owned(), json!(refusal(answer)));
    if let Some(reasoning) = reasoning(answer) {
        message.insert("reasoning_content".to_owned(), json!(reasoning));
    }
    let calls: Vec<Value> = tools(answer)
        .enumerate()
        .map(|(number, (name, arguments))| {
            json!({
                "id": call_id(context, number),
                "type": "function",
                "function": {"name": name, "arguments": arguments.text()},
            })
        })
        .collect();
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    let mut reply = json!({
        "id": id(context),
        "object": "chat.completion",
        "created": CREATED,
        "model": context.model,
        "choices": [{
            "index": 0, "message": message, "logprobs": null, "finish_reason": answer.finish_reason(),
        }],
    });
    if let Some(usage) = answer.usage {
        reply["usage"] = openai_usage(usage);
    }
    reply
}

pub(super) fn events(answer: &Answer, context: &Context) -> Vec<Event> {
    let chunk = |choices: Value| {
        let mut value = json!({
            "id": id(context),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": context.model,
            "choices": choices,
        });
        if context.include_usage {
            value["usage"] = Value::Null;
        }
        value
    };
    let delta = |delta: Value| {
        Event::data(&chunk(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}])))
    };

    let mut events = vec![delta(json!({"role": "assistant", "content": ""}))];
    let mut calls = 0;
    for part in &answer.parts {
        match part {
            ReplyPart::Text(text) => {
                events.extend(answer.pieces(text).into_iter().map(|piece| delta(json!({"content": piece}))));
            }
            ReplyPart::Reasoning(text) => {
                let pieces = answer.pieces(text).into_iter();
                events.extend(pieces.map(|piece| delta(json!({"reasoning_content": piece}))));
            }
            ReplyPart::Refusal(text) => {
                events.extend(answer.pieces(text).into_iter().map(|piece| delta(json!({"refusal": piece}))));
            }
            ReplyPart::Tool { name, arguments } => {
                let opening = json!({
                    "index": calls,
                    "id": call_id(context, calls),
                    "type": "function",
                    "function": {"name": name, "arguments": ""},
                });
                events.push(delta(json!({"tool_calls": [opening]})));
                events.extend(answer.pieces(&arguments.text()).into_iter().map(|piece| {
                    delta(json!({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]}))
                }));
                calls += 1;
            }
        }
    }
    if let Some(reason) = answer.finish_reason() {
        events.push(Event::data(&chunk(
            json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason}]),
        )));
    }
    events.extend(openai_end(answer, context, chunk));
    events
}

fn id(context: &Context) -> String {
    format!("chatcmpl-{}", context.index)
}

fn call_id(context: &Context, number: usize) -> String {
    format!("call_{}_{number}", context.index)
}

fn refusal(answer: &Answer) -> Option<String> {
    answer.joined(|part| if let ReplyPart::Refusal(text) = part { Some(text) } else { None })
}

fn reasoning(answer: &Answer) -> Option<String> {
    answer.joined(|part| if let ReplyPart::Reasoning(text) = part { Some(text) } else { None })
}

fn tools(answer: &Answer) -> impl Iterator<Item = (&str, &Arguments)> {
    answer.parts.iter().filter_map(|part| match part {
        ReplyPart::Tool { name, arguments } => Some((name.as_str(), arguments)),
        _ => None,
    })
}

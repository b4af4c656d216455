//! Tests messages.

use serde_json::json;
use slipform_testkit::Step;

use crate::support::{MESSAGES, ask, plain, streamed};

#[test]
fn plain_answer_has_all_members() {
    let step =
        Step::reasoning("hm").and_text("hi").and_tool("submit", json!({"a": 1})).usage(7, 3).cached(100);
    assert_eq!(
        ask(step, MESSAGES, &plain()).json(),
        json!({
            "id": "msg_0", "type": "message", "role": "assistant", "model": "m",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2NyaXB0ZWQ="},
                {"type": "text", "text": "hi"},
                {"type": "tool_use", "id": "toolu_0_2", "name": "submit", "input": {"a": 1}},
            ],
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {
                "input_tokens": 7, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 100, "output_tokens": 3,
            },
        })
    );
}

#[test]
fn streamed_answer_has_all_events() {
    let reply = ask(Step::text("hello").chunk_bytes(3).usage(7, 3), MESSAGES, &streamed());
    let events = reply.events();
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let values = reply.values();
    assert!(values.iter().zip(&names).all(|(value, name)| value["type"] == *name));
    assert_eq!(values[0]["message"]["usage"]["input_tokens"], 7);
    assert_eq!(values[0]["message"]["content"], json!([]));
    assert_eq!(values[1]["content_block"], json!({"type": "text", "text": ""}));
    assert_eq!(values[2]["delta"], json!({"type": "text_delta", "text": "hel"}));
    assert_eq!(values[5]["delta"]["stop_reason"], "end_turn");
    assert_eq!(values[5]["usage"]["output_tokens"], 3);
}

#[test]
fn thinking_and_tools_are_streamed_as_blocks() {
    let step = Step::reasoning("think twice").and_tool("submit", json!({"city": "Zürich"})).chunk_bytes(6);
    let reply = ask(step, MESSAGES, &streamed());
    assert_eq!(reply.joined("/delta/thinking"), "think twice");
    assert_eq!(reply.joined("/delta/signature"), "c2NyaXB0ZWQ=");
    assert_eq!(reply.joined("/delta/partial_json"), "{\"city\":\"Zürich\"}");
    assert_eq!(reply.joined("/delta/stop_reason"), "tool_use");
    let indexes: Vec<u64> = reply
        .values()
        .iter()
        .filter(|value| value["type"] == "content_block_start")
        .map(|value| value["index"].as_u64().unwrap())
        .collect();
    assert_eq!(indexes, [0, 1]);
}

#[test]
fn finish_reason_is_translated() {
    let words = [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("tool_calls", "tool_use"),
        ("content_filter", "refusal"),
        ("pause_turn", "pause_turn"),
    ];
    for (word, own) in words {
        assert_eq!(ask(Step::text("x").finish(word), MESSAGES, &plain()).json()["stop_reason"], own);
        let reply = ask(Step::text("x").finish(word), MESSAGES, &streamed());
        assert_eq!(reply.joined("/delta/stop_reason"), own);
    }
    assert_eq!(ask(Step::refusal("no"), MESSAGES, &plain()).json()["stop_reason"], "refusal");
    assert_eq!(ask(Step::refusal("no"), MESSAGES, &streamed()).joined("/delta/stop_reason"), "refusal");
}

#[test]
fn arguments_that_are_not_json_become_a_string() {
    let reply = ask(Step::tool("submit", "{broken"), MESSAGES, &plain()).json();
    assert_eq!(reply["content"][0]["input"], "{broken");
}

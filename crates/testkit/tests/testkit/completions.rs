//! Tests legacy completions.

use serde_json::json;
use slipform_testkit::Step;

use crate::support::{COMPLETIONS, ask};

#[test]
fn plain_answer_has_all_members() {
    let reply = ask(Step::text("hi").finish("length"), COMPLETIONS, &json!({"model": "m", "prompt": "p"}));
    assert_eq!(
        reply.json(),
        json!({
            "id": "cmpl-0", "object": "text_completion", "created": 1_700_000_000, "model": "m",
            "choices": [{"index": 0, "text": "hi", "logprobs": null, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        })
    );
}

#[test]
fn streamed_answer_is_split_into_pieces() {
    let request = json!({"prompt": "p", "stream": true, "stream_options": {"include_usage": true}});
    let reply = ask(Step::text("hello there").chunk_bytes(3), COMPLETIONS, &request);
    assert_eq!(reply.joined("/choices/0/text"), "hello there");
    let values = reply.values();
    assert_eq!(values[values.len() - 2]["choices"][0]["finish_reason"], "stop");
    assert_eq!(values[values.len() - 1]["usage"]["total_tokens"], 15);
    assert_eq!(reply.events().last().unwrap().1, "[DONE]");
}

//! Tests chat completions.

use serde_json::{Value, json};
use slipform_testkit::Step;

use crate::support::{CHAT, End, ask, plain, streamed};

#[test]
fn plain_answer_has_all_members() {
    let reply = ask(Step::text("{\"a\":1}").usage(7, 3), CHAT, &plain());
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(
        reply.json(),
        json!({
            "id": "chatcmpl-0", "object": "chat.completion", "created": 1_700_000_000, "model": "m",
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": "{\"a\":1}", "refusal": null},
                "logprobs": null,
                "finish_reason": "stop",
            }],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        })
    );
}

#[test]
fn streamed_answer_is_split_into_deltas() {
    let reply = ask(Step::text("häppy ☃ end").chunk_bytes(4), CHAT, &streamed());
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(reply.end, End::Proper);
    let values = reply.values();
    assert_eq!(values[0]["object"], "chat.completion.chunk");
    assert_eq!(values[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    let pieces: Vec<&str> =
        values.iter().filter_map(|value| value["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(pieces, ["", "häp", "py ", "☃ ", "end"]);
    assert_eq!(values.last().unwrap()["choices"][0]["finish_reason"], "stop");
    assert!(values.iter().all(|value| value.get("usage").is_none()));
    assert_eq!(reply.events().last().unwrap().1, "[DONE]");
    assert_eq!(reply.chunks.len(), reply.events().len(), "one HTTP chunk for each event");
}

#[test]
fn stream_has_usage_only_on_request() {
    let mut request = streamed();
    request["stream_options"] = json!({"include_usage": true});
    let values = ask(Step::text("x").usage(9, 2).cached(4), CHAT, &request).values();
    let (last, others) = values.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(
        last["usage"],
        json!({
            "prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "prompt_tokens_details": {"cached_tokens": 4},
        })
    );
    assert!(others.iter().all(|value| value["usage"] == Value::Null && value.get("usage").is_some()));

    let without = ask(Step::text("x").without_usage(), CHAT, &request);
    assert!(without.values().iter().all(|value| value["usage"] == Value::Null));
    assert_eq!(ask(Step::text("x").without_usage(), CHAT, &plain()).json().get("usage"), None);
}

#[test]
fn tool_calls_are_sent_plain_and_streamed() {
    let step = Step::tool("submit", json!({"city": "Zürich"}))
        .and_tool("log", "{not json")
        .and_text("done")
        .chunk_bytes(5);
    let message = ask(step.clone(), CHAT, &plain()).json()["choices"][0].clone();
    assert_eq!(message["finish_reason"], "tool_calls");
    assert_eq!(message["message"]["content"], "done");
    assert_eq!(
        message["message"]["tool_calls"],
        json!([
            {"id": "call_0_0", "type": "function", "function": {"name": "submit", "arguments": "{\"city\":\"Zürich\"}"}},
            {"id": "call_0_1", "type": "function", "function": {"name": "log", "arguments": "{not json"}},
        ])
    );

    let reply = ask(step, CHAT, &streamed());
    let mut names = Vec::new();
    let mut arguments = [String::new(), String::new()];
    for value in reply.values() {
        let call = &value["choices"][0]["delta"]["tool_calls"][0];
        if let Some(index) = call["index"].as_u64() {
            names.extend(call["function"]["name"].as_str().map(str::to_owned));
            arguments[usize::try_from(index).unwrap()]
                .push_str(call["function"]["arguments"].as_str().unwrap());
        }
    }
    assert_eq!(names, ["submit", "log"]);
    assert_eq!(arguments, ["{\"city\":\"Zürich\"}", "{not json"]);
    assert_eq!(reply.values().last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn reasoning_is_sent_before_the_text() {
    let step = Step::reasoning("let me think about it").and_text("42");
    let message = ask(step.clone(), CHAT, &plain()).json()["choices"][0]["message"].clone();
    assert_eq!(message["reasoning_content"], "let me think about it");
    assert_eq!(message["content"], "42");

    let reply = ask(step, CHAT, &streamed());
    assert_eq!(reply.joined("/choices/0/delta/reasoning_content"), "let me think about it");
    assert_eq!(reply.joined("/choices/0/delta/content"), "42");
}

#[test]
fn refusal_is_sent_plain_and_streamed() {
    let choice = ask(Step::refusal("I will not."), CHAT, &plain()).json()["choices"][0].clone();
    assert_eq!(choice["message"], json!({"role": "assistant", "content": null, "refusal": "I will not."}));
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(
        ask(Step::refusal("I will not."), CHAT, &streamed()).joined("/choices/0/delta/refusal"),
        "I will not."
    );
}

#[test]
fn finish_reason_and_model_are_configurable() {
    for word in ["length", "content_filter", "function_call"] {
        let step = Step::text("x").finish(word).model("other");
        let reply = ask(step.clone(), CHAT, &plain()).json();
        assert_eq!((&reply["choices"][0]["finish_reason"], &reply["model"]), (&json!(word), &json!("other")));
        let values = ask(step, CHAT, &streamed()).values();
        assert_eq!(values.last().unwrap()["choices"][0]["finish_reason"], word);
    }
    let values = ask(Step::text("x").without_finish(), CHAT, &streamed()).values();
    assert!(values.iter().all(|value| value["choices"][0]["finish_reason"].is_null()));
}

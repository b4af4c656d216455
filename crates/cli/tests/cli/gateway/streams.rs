//! Streamed responses.

use std::io::Read as _;

use serde_json::{Value, json};
use slipform_testkit::{Gate, Script, ScriptedServer, Step};

use super::support::{
    chat, gateway, open, post, read, read_until, streamed, two_backends, with_schema, with_tool,
};
use crate::support::{Project, serve};

#[test]
fn streamed_deltas_are_the_answer_byte_for_byte() {
    let text = "{\"name\": \"Ada – \u{1f600}\",\n \"age\": 36}";
    let answer = || Step::text(text).chunk_bytes(3);
    let call = || Step::tool("save_person", json!({"name": "Ada", "age": 36}));
    let (_server, address, _upstream) = gateway(
        "gateway-stream",
        [
            answer(),
            answer(),
            Step::text("Hello there, Ada.").chunk_bytes(3),
            Step::text("Hello there, Ada."),
            call(),
            call(),
        ],
    );
    for (more, is_free) in [(with_schema(), false), (json!({}), true)] {
        let mut body = streamed(chat("scripted", &more));
        body["stream_options"] = json!({"include_usage": true});
        let stream = post(&address, &body);
        let chunks = stream.chunks();
        assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
        let roles = chunks.iter().filter(|chunk| chunk["choices"][0]["delta"]["role"].is_string());
        assert_eq!(roles.count(), 1);
        let deltas: Vec<&str> =
            chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        // A free text is passed on as it is written, a structured one when it is valid.
        assert_eq!(deltas.len() > 3, is_free, "{deltas:?}");
        let whole = post(&address, &chat("scripted", &more)).json();
        assert_eq!(json!(deltas.concat()), whole["choices"][0]["message"]["content"]);
        let [.., finish, usage] = chunks.as_slice() else { panic!("{chunks:?}") };
        assert_eq!(finish["choices"][0]["finish_reason"], "stop");
        assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(15)));
        assert_eq!(stream.events().last().unwrap(), "[DONE]");
    }
    let stream = post(&address, &streamed(chat("scripted", &with_tool(&json!("auto")))));
    let calls: Vec<Value> = stream
        .chunks()
        .iter()
        .flat_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array().cloned().unwrap_or_default())
        .collect();
    assert_eq!(calls.iter().filter(|call| call["id"].is_string()).count(), 1);
    assert!(calls.iter().all(|call| call["index"] == 0));
    let arguments: String = calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    let whole = post(&address, &chat("scripted", &with_tool(&json!("auto")))).json();
    assert_eq!(json!(arguments), whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]);
}

#[test]
fn free_text_is_passed_on_before_it_is_complete() {
    let gate = Gate::new();
    let (_server, address, _upstream) =
        gateway("gateway-live", [Step::text("Hello there, Ada.").chunk_bytes(5).gate_after(2, &gate)]);
    let mut stream = open(&address, &streamed(chat("scripted", &json!({}))), "");
    let mut received = read_until(&mut stream, |received| received.contains("Hello"));
    gate.open();
    stream.read_to_string(&mut received).unwrap();
    assert!(received.ends_with("data: [DONE]\n\n"), "{received}");
}

/// The SDKs limit the time between two pieces, not that of the whole stream.
#[test]
fn text_that_takes_longer_than_the_read_time_limit_is_streamed_to_its_end() {
    let text = "Once upon a time there was a schema that every reply satisfied.";
    let slow = Step::text(text).chunk_bytes(4).trickle(256, std::time::Duration::from_millis(150));
    let (_server, address, _upstream) = gateway("gateway-slow-text", [slow]);
    let body = streamed(chat("scripted", &json!({})));
    let answered = read(open(&address, &body, "x-stainless-read-timeout: 1\r\n"));
    let pieces = answered.chunks();
    let pieces = pieces.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(pieces.collect::<String>(), text, "{}", answered.text);
    assert_eq!(answered.events().last().unwrap(), "[DONE]");
}

#[test]
fn text_that_was_sent_is_never_taken_back() {
    let (_server, address, upstream) = gateway(
        "gateway-retraction",
        [Step::text("Hello there, Ada.").chunk_bytes(5).cut_after(3), Step::text("Something else.")],
    );
    let stream = post(&address, &streamed(chat("scripted", &json!({}))));
    let events = stream.events();
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "backend_unavailable", "{}", stream.text);
    assert!(!stream.text.contains("Something") && !stream.text.contains("[DONE]"), "{}", stream.text);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn text_before_a_call_is_passed_on_and_kept_when_the_call_is_corrected() {
    let gate = Gate::new();
    let (_server, address, upstream) = gateway(
        "gateway-live-tools",
        [
            Step::text("Let me save that.")
                .chunk_bytes(6)
                .and_tool("save_person", json!({"name": "Ada"}))
                .gate_after(2, &gate),
            Step::text("Again.").and_tool("save_person", json!({"name": "Ada", "age": 36})),
        ],
    );
    let mut stream = open(&address, &streamed(chat("scripted", &with_tool(&json!("auto")))), "");
    let mut received = read_until(&mut stream, |received| received.contains("Let"));
    gate.open();
    stream.read_to_string(&mut received).unwrap();
    assert!(received.ends_with("data: [DONE]\n\n"), "{received}");
    let events =
        received.split("data: ").skip(1).filter_map(|event| serde_json::from_str::<Value>(event.trim()).ok());
    let deltas: Vec<Value> = events.map(|event| event["choices"][0]["delta"].clone()).collect();
    let text: String = deltas.iter().filter_map(|delta| delta["content"].as_str()).collect();
    assert_eq!(text, "Let me save that.");
    let arguments: String =
        deltas.iter().filter_map(|delta| delta["tool_calls"][0]["function"]["arguments"].as_str()).collect();
    assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap(), json!({"name": "Ada", "age": 36}));
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn call_is_corrected_on_the_fallback_of_a_route_after_its_text_was_passed_on() {
    let first = ScriptedServer::start(Script::new([Step::status(503)]).repeat_last());
    let second = ScriptedServer::start([
        Step::text("Let me save that.").and_tool("save_person", json!({"name": "Ada"})),
        Step::tool("save_person", json!({"name": "Ada", "age": 36})),
    ]);
    let settings = two_backends(
        ("first", &first),
        ("second", &second),
        "[gateway]\nroutes = { wanted = [\"first\", \"second\"] }\n",
    );
    let project = Project::new("gateway-live-fallback").file("slipform.toml", &settings);
    let (_server, address) = serve(&project, &[]);
    let stream = post(&address, &streamed(chat("wanted", &with_tool(&json!("auto")))));
    assert_eq!(stream.events().last().unwrap(), "[DONE]", "{}", stream.text);
    let chunks = stream.chunks();
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!((first.requests().len(), second.requests().len()), (1, 2));
}

/// Grammar-constrained JSON of the embedded model is streamed as it is written.
#[test]
#[cfg(feature = "embedded")]
fn json_under_a_grammar_is_passed_on_before_it_is_complete() {
    let Some(project) = crate::embedded::project("gateway-embedded") else { return };
    let (_server, address) = serve(&project, &[]);
    let mut body = streamed(chat("embedded", &with_schema()));
    body["seed"] = json!(7);
    let stream = post(&address, &body);
    let deltas: Vec<String> = stream
        .chunks()
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .filter(|delta| !delta.is_empty())
        .collect();
    assert!(deltas.len() > 2, "{}", stream.text);
    assert!(super::support::is_person(&serde_json::from_str(&deltas.concat()).unwrap()), "{deltas:?}");
    assert_eq!(stream.events().last().unwrap(), "[DONE]");
    let mut whole = chat("embedded", &with_schema());
    whole["seed"] = json!(7);
    assert_eq!(json!(deltas.concat()), post(&address, &whole).json()["choices"][0]["message"]["content"]);
}

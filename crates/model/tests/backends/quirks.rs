//! Servers that speak a protocol nearly as it is written down.

use formwork_model::{Call, Error};
use formwork_testkit::{Recorded, ScriptedServer, Step};
use formwork_types::{BackendKind, Message, Reply, Request, Stop, Tool, ToolCall, Usage};
use serde_json::{Value, json};

use crate::support::{backend, call, config, hello, once, reply};

const OPENAI: BackendKind = BackendKind::OpenAi;

/// A stream of these deltas and a proper end.
fn deltas(deltas: &[Value]) -> Step {
    let mut body = String::new();
    for delta in deltas {
        body.push_str(&format!("data: {}\n\n", json!({"choices": [{"delta": delta}]})));
    }
    body.push_str("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    Step::status(200).content_type("text/event-stream").body(body)
}

async fn calls(step: Step) -> Vec<(String, String)> {
    let reply: Reply = reply(OPENAI, step).await.unwrap();
    assert_eq!(reply.stop, Stop::ToolCalls);
    reply.tool_calls.into_iter().map(|call| (call.name, call.arguments)).collect()
}

fn function(index: usize, name: Value, arguments: Value) -> Value {
    json!({"tool_calls": [{"index": index, "id": null, "function": {"name": name, "arguments": arguments}}]})
}

#[tokio::test]
async fn a_name_that_comes_with_every_part_is_one_name() {
    let parts = ["", "{\"a\"", ":1}"].map(|arguments| function(0, json!("read"), json!(arguments)));
    assert_eq!(calls(deltas(&parts)).await, [("read".to_owned(), "{\"a\":1}".to_owned())]);
}

#[tokio::test]
async fn a_name_in_pieces_is_one_name() {
    let parts = [
        function(0, json!("re"), json!("")),
        function(0, json!("ad"), Value::Null),
        function(0, Value::Null, json!("{}")),
    ];
    assert_eq!(calls(deltas(&parts)).await, [("read".to_owned(), "{}".to_owned())]);
}

#[tokio::test]
async fn arguments_may_be_an_object() {
    let part = function(0, json!("read"), json!({"b": 1, "a": [2]}));
    let expected = [("read".to_owned(), "{\"b\":1,\"a\":[2]}".to_owned())];
    assert_eq!(calls(deltas(std::slice::from_ref(&part))).await, expected);
    let whole = json!({"choices": [{"message": part, "finish_reason": "tool_calls"}]});
    assert_eq!(calls(Step::status(200).body(whole.to_string())).await, expected);
}

#[tokio::test]
async fn calls_without_an_index_are_told_apart_by_their_ids() {
    let call = |id: Option<&str>, name: Option<&str>, arguments: &str| json!({"tool_calls": [{"id": id, "function": {"name": name, "arguments": arguments}}]});
    let parts =
        [call(Some("x"), Some("read"), "{"), call(None, None, "}"), call(Some("y"), Some("stop"), "{}")];
    let expected = [("read".to_owned(), "{}".to_owned()), ("stop".to_owned(), "{}".to_owned())];
    assert_eq!(calls(deltas(&parts)).await, expected);
}

#[tokio::test]
async fn a_call_far_beyond_the_others_does_not_fill_the_memory() {
    let error = reply(OPENAI, deltas(&[function(1 << 40, json!("read"), json!("{}"))])).await.unwrap_err();
    assert_eq!(error, Error::Incomplete { reason: "more than 128 tool calls".to_owned() });
}

#[tokio::test]
async fn nothing_may_be_null() {
    let parts = [
        json!({"role": "assistant", "content": null, "tool_calls": null, "refusal": null, "reasoning": null}),
        json!({"content": "x"}),
    ];
    assert_eq!(reply(OPENAI, deltas(&parts)).await.unwrap().text, "x");
    let lines = "data: {\"choices\":null,\"usage\":null,\"error\":null,\"model\":null}\n\n\
                 data: {\"choices\":[{\"delta\":null,\"finish_reason\":\"stop\"}]}\n\n\
                 data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":null}}\n\n";
    let step = Step::status(200).content_type("text/event-stream").body(lines);
    let reply = reply(OPENAI, step).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage.input), ("", 3));
}

#[tokio::test]
async fn reasoning_under_either_name_or_both_is_read_once() {
    for names in [&["reasoning"][..], &["reasoning_content"], &["reasoning", "reasoning_content"]] {
        let delta: Value = names.iter().map(|name| ((*name).to_owned(), json!("hm"))).collect();
        let reply = reply(OPENAI, deltas(&[delta])).await.unwrap();
        assert_eq!(reply.reasoning, "hm", "{names:?}");
    }
}

#[tokio::test]
async fn what_nobody_counted_is_estimated() {
    // 40 bytes of prompt, tools and all, are 10 tokens.
    let made = ToolCall { id: "c".to_owned(), name: "read".to_owned(), arguments: "{}".to_owned() };
    let request = Request {
        system: Some("12345678".to_owned()),
        messages: vec![
            Message::user("1234567"),
            Message::user("8"),
            Message::assistant("", vec![made]),
            Message::tool("c", "12"),
        ],
        tools: vec![Tool {
            name: "read".to_owned(),
            description: "12345678".to_owned(),
            parameters: json!({}),
            strict: false,
        }],
        ..Request::default()
    };
    for kind in [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic] {
        for step in [Step::text("123456789"), Step::text("123456789").plain_only()] {
            let server = ScriptedServer::start(step.without_usage());
            let reply = backend(&once(kind, &server)).call(Call::new(&request)).await.unwrap();
            assert_eq!(reply.usage, Usage { input: 10, output: 3, estimated: true }, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn what_a_tool_was_told_counts_as_written() {
    for kind in [BackendKind::OpenAi, BackendKind::Anthropic] {
        let step = Step::reasoning("1234").and_tool("read", "{\"a\":123}").without_usage();
        let reply = reply(kind, step).await.unwrap();
        assert_eq!(reply.usage, Usage { input: 2, output: 4, estimated: true }, "{kind:?}");
    }
}

/// Answers as servers do that do not know `stream_options`.
fn old_server(status: u16, body: &'static str) -> ScriptedServer {
    ScriptedServer::respond(move |request: &Recorded, _| {
        if request.body["stream_options"].is_null() {
            Step::text("fine")
        } else {
            Step::status(status).body(body)
        }
    })
}

#[tokio::test]
async fn a_server_that_refuses_stream_options_is_asked_without_them_from_then_on() {
    for (status, body) in [
        (400, r#"{"error":{"message":"Unrecognized request argument supplied: stream_options"}}"#),
        (400, r#"{"error":{"message":"Unknown field","param":"stream_options"}}"#),
        (422, r#"{"detail":[{"loc":["body","stream_options"],"msg":"extra fields not permitted"}]}"#),
    ] {
        for kind in [BackendKind::OpenAi, BackendKind::Completions] {
            let server = old_server(status, body);
            let backend = backend(&config(kind, &server));
            for _ in 0..2 {
                let reply = backend.call(Call::new(&hello())).await.unwrap();
                assert_eq!(reply.text, "fine");
                assert!(reply.usage.estimated && reply.usage.input > 0, "{:?}", reply.usage);
            }
            let sent: Vec<bool> = server
                .requests()
                .iter()
                .map(|request| request.body.get("stream_options").is_some())
                .collect();
            assert_eq!(sent, [true, false, false], "{kind:?}: {body}");
        }
    }
}

#[tokio::test]
async fn other_refusals_are_not_repeated_without_stream_options() {
    for (status, body) in [(400, "max_tokens is too large"), (403, "stream_options are for paying customers")]
    {
        let server = old_server(status, body);
        let error = call(&config(OPENAI, &server)).await.unwrap_err();
        assert_eq!(error, Error::Rejected { status, message: body.to_owned() });
        assert_eq!(server.requests().len(), 1);
    }
    let body = "neither stream_options nor you";
    let server = ScriptedServer::respond(move |_, _| Step::status(400).body(body));
    let error = call(&config(OPENAI, &server)).await.unwrap_err();
    assert_eq!(error, Error::Rejected { status: 400, message: body.to_owned() });
    assert_eq!(server.requests().len(), 2);
}

//! Common deviations of servers from the protocol, which backends tolerate.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_model::Call;
use slipform_testkit::{ScriptedServer, Step};
use slipform_types::{BackendKind, Format, Message, Request, Tool, ToolCall};

use crate::support::{ask, ask_script, config, open, question, shown};

/// Returns a chat completions stream with one event per choice, followed by `[DONE]`.
fn stream(choices: &[Value]) -> Step {
    let mut body: String =
        choices.iter().map(|choice| format!("data: {}\n\n", json!({"choices": [choice]}))).collect();
    body.push_str("data: [DONE]\n\n");
    Step::status(200).content_type("text/event-stream").body(body)
}

fn complete(message: &Value) -> Step {
    Step::status(200).body(json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string())
}

/// Compares the outcome of a chat completions call, without the estimated usage.
async fn check(step: Step, expect: Expect) {
    let (server, outcome) = ask_script(BackendKind::OpenAi, step, |_| {}).await;
    assert_eq!(server.requests().len(), 1, "{}", shown(&outcome));
    let outcome = outcome.map(|mut reply| {
        reply.usage = slipform_types::Usage::default();
        reply
    });
    expect.assert_eq(&shown(&outcome));
}

fn deltas(calls: &[Value]) -> Step {
    stream(&calls.iter().map(|call| json!({"delta": {"tool_calls": [call]}})).collect::<Vec<_>>())
}

#[tokio::test]
async fn tool_name_repeated_in_every_delta_is_used_once() {
    let piece = |part: &str| json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": part}});
    check(deltas(&[piece(""), piece("{\"at\":"), piece("\"wall\"}")]), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{\"at\":\"wall\"}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn tool_name_split_over_deltas_is_joined() {
    let named = |part: &str| json!({"index": 0, "function": {"name": part}});
    let arguments = json!({"index": 0, "function": {"arguments": "{}"}});
    check(deltas(&[named("lo"), named("ok"), arguments]), expect![[r#"{"text":"","tool_calls":[{"id":"call_0","name":"look","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn calls_without_index_are_separated_by_id() {
    let piece = |id: &str, part: &str| json!({"id": id, "function": {"name": "look", "arguments": part}});
    check(deltas(&[piece("a", "{\"at\":"), piece("a", "1}"), piece("b", "{}")]), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{\"at\":1}"},{"id":"b","name":"look","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn calls_without_index_and_id_are_separated_by_complete_arguments() {
    let piece = |part: &str| json!({"function": {"name": "look", "arguments": part}});
    check(deltas(&[piece("{\"at\":"), piece("1}"), piece("{}")]), expect![[r#"{"text":"","tool_calls":[{"id":"call_0","name":"look","arguments":"{\"at\":1}"},{"id":"call_1","name":"look","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
    let call = |name: &str| json!({"function": {"name": name, "arguments": "{}"}});
    check(complete(&json!({"content": null, "tool_calls": [call("look"), call("paint")]})), expect![[r#"{"text":"","tool_calls":[{"id":"call_0","name":"look","arguments":"{}"},{"id":"call_1","name":"paint","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn calls_with_one_index_are_separated_by_id() {
    let piece =
        |id: &str, part: &str| json!({"index": 0, "id": id, "function": {"name": "look", "arguments": part}});
    let rest = |part: &str| json!({"index": 0, "function": {"arguments": part}});
    check(deltas(&[piece("a", "{\"at\":"), rest("1}"), piece("b", "{\"at\":"), rest("2}")]), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{\"at\":1}"},{"id":"b","name":"look","arguments":"{\"at\":2}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn calls_numbered_from_one_leave_no_gap() {
    let call = json!({"index": 1, "id": "a", "function": {"name": "look", "arguments": "{}"}});
    check(deltas(&[call]), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn reply_with_too_many_calls_is_incomplete() {
    let call = json!({"index": 4_000_000_000_u64, "function": {"name": "look", "arguments": "{}"}});
    let (_, outcome) = ask_script(BackendKind::OpenAi, deltas(&[call]), |config| config.retries = 0).await;
    assert_eq!(shown(&outcome), "Incomplete: the reply is incomplete: more than 128 tool calls");
}

#[tokio::test]
async fn arguments_as_object_are_serialized() {
    let call = json!({"id": "a", "function": {"name": "look", "arguments": {"at": "wall"}}});
    check(complete(&json!({"content": null, "tool_calls": [call]})), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{\"at\":\"wall\"}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
    check(deltas(&[call]), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{\"at\":\"wall\"}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn content_as_null_or_parts_is_read() {
    check(
        complete(&json!({"content": null})),
        expect![[r#"{"text":"","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#]],
    )
    .await;
    let parts = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "green"},
    ]);
    check(
        complete(&json!({"content": parts})),
        expect![[r#"{"text":"green","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#]],
    )
    .await;
}

#[tokio::test]
async fn reasoning_is_read_under_either_name() {
    for message in [json!({"reasoning": "hm"}), json!({"reasoning_content": "hm"})] {
        let (_, outcome) = ask_script(BackendKind::OpenAi, complete(&message), |_| {}).await;
        assert_eq!(outcome.unwrap().reasoning, "hm", "{message}");
    }
    check(
        complete(&json!({"content": "green", "reasoning": "hm", "reasoning_content": "hm"})),
        expect![[
            r#"{"text":"green","reasoning":"hm","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#
        ]],
    )
    .await;
    check(
        complete(&json!({"content": "green", "reasoning": {"effort": "low"}})),
        expect![[r#"{"text":"green","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#]],
    )
    .await;
}

#[tokio::test]
async fn empty_finish_reason_and_empty_events_are_ignored() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"gre\"},\"finish_reason\":\"\"}]}\n\n\
                data:\n\n\
                data: {\"choices\":[{\"delta\":{\"content\":\"en\"},\"finish_reason\":\"\"}]}\n\n\
                data: [DONE] \n\n";
    let step = Step::status(200).content_type("text/event-stream").body(body);
    check(step, expect![[r#"{"text":"green","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#]])
        .await;
}

#[tokio::test]
async fn response_without_content_type_is_recognized() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"green\"}}]}\n\ndata: [DONE]\n\n";
    check(
        Step::raw(format!("HTTP/1.1 200 OK\r\n\r\n{body}")),
        expect![[r#"{"text":"green","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#]],
    )
    .await;
    let body = "{\"choices\":[{\"message\":{\"content\":\"green\"}}]}";
    check(
        Step::raw(format!("HTTP/1.1 200 OK\r\n\r\n{body}")),
        expect![[r#"{"text":"green","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#]],
    )
    .await;
}

#[tokio::test]
async fn anthropic_stream_with_done_marker_is_read() {
    let step = Step::text("green").malformed_chunk(9, "data: [DONE]").malformed_chunk(1, "data:");
    let (_, outcome) = ask_script(BackendKind::Anthropic, step, |_| {}).await;
    assert_eq!(outcome.unwrap().text, "green");
}

#[tokio::test]
async fn usage_estimate_includes_every_part_of_the_request() {
    let text = |tokens: usize| "x".repeat(4 * tokens);
    // The quotes in JSON add two bytes.
    let schema = |tokens: usize| json!("x".repeat(4 * tokens - 2));
    let call = ToolCall { id: "a".to_owned(), name: text(4), arguments: text(8) };
    let tool = Tool { name: text(16), description: text(32), parameters: schema(64), strict: false };
    let request = Request {
        system: Some(text(1)),
        messages: vec![Message::user(text(2)), Message::assistant("", vec![call]), Message::tool("a", "")],
        tools: vec![tool],
        format: Format::JsonSchema { name: "s".to_owned(), schema: schema(128).into(), strict: true },
        ..Request::default()
    };
    for kind in crate::support::HTTP {
        let server = ScriptedServer::start(Step::text(text(3)).without_usage());
        let reply = open(&config(&server, kind)).call(Call::new(&request)).await.unwrap();
        assert_eq!(
            (reply.usage.input, reply.usage.output, reply.usage.estimated),
            (255, 3, true),
            "{kind:?}"
        );
    }
}

/// Starts a server that rejects `stream_options` with this body.
fn strict_server(status: u16, body: &'static str) -> ScriptedServer {
    ScriptedServer::respond(move |request, _| {
        if request.body.get("stream_options").is_some() {
            Step::status(status).body(body)
        } else {
            Step::text("green").without_usage()
        }
    })
}

#[tokio::test]
async fn rejected_stream_options_are_omitted_from_then_on() {
    let cases = [
        (400, r#"{"error": {"message": "Unrecognized request argument: stream_options"}}"#),
        (422, r#"{"detail": [{"loc": ["body", "stream_options"], "msg": "extra fields not permitted"}]}"#),
    ];
    for kind in [BackendKind::OpenAi, BackendKind::Completions] {
        for (status, body) in cases {
            let server = strict_server(status, body);
            let backend = open(&config(&server, kind));
            for _ in 0..2 {
                let reply = ask(backend.as_ref()).await.unwrap();
                assert!(reply.text == "green" && reply.usage.estimated, "{reply:?}");
            }
            let has_options = |index: usize| server.requests()[index].body.get("stream_options").is_some();
            let found = [has_options(0), has_options(1), has_options(2)];
            assert_eq!(found, [true, false, false], "{kind:?} {status}");
            assert_eq!(server.requests().len(), 3);
        }
    }
}

#[tokio::test]
async fn error_that_quotes_the_request_does_not_disable_stream_options() {
    let server = ScriptedServer::respond(|request, _| {
        Step::status(400).body(format!("no such model in {}", String::from_utf8_lossy(&request.raw)))
    });
    let backend = open(&config(&server, BackendKind::OpenAi));
    for _ in 0..2 {
        ask(backend.as_ref()).await.unwrap_err();
    }
    let has_options = |index: usize| server.requests()[index].body.get("stream_options").is_some();
    assert_eq!([has_options(0), has_options(1), has_options(2)], [true, false, true]);
}

#[tokio::test]
async fn unrelated_rejection_is_not_retried() {
    let server = strict_server(400, "no such model");
    open(&config(&server, BackendKind::OpenAi)).call(Call::new(&question())).await.unwrap_err();
    assert_eq!(server.requests().len(), 1);
}

//! Habits of servers that are wrong by the book and common in the field.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_model::Call;
use slipform_testkit::{ScriptedServer, Step};
use slipform_types::{BackendKind, Format, Message, Request, Tool, ToolCall};

use crate::support::{ask, ask_script, config, open, question, shown};

/// A stream of chat completions with these choices, and then the usual end.
fn stream(choices: &[Value]) -> Step {
    let mut body: String =
        choices.iter().map(|choice| format!("data: {}\n\n", json!({"choices": [choice]}))).collect();
    body.push_str("data: [DONE]\n\n");
    Step::status(200).content_type("text/event-stream").body(body)
}

fn whole(message: &Value) -> Step {
    Step::status(200).body(json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string())
}

/// What chat completions make of a reply, the estimated usage aside.
async fn check(step: Step, expect: Expect) {
    let (server, outcome) = ask_script(BackendKind::OpenAi, step, |_| {}).await;
    assert_eq!(server.requests().len(), 1, "{}", shown(&outcome));
    let outcome = outcome.map(|mut reply| {
        reply.usage = slipform_types::Usage::default();
        reply
    });
    expect.assert_eq(&shown(&outcome));
}

fn pieces(calls: &[Value]) -> Step {
    stream(&calls.iter().map(|call| json!({"delta": {"tool_calls": [call]}})).collect::<Vec<_>>())
}

#[tokio::test]
async fn a_name_may_come_with_every_piece() {
    let piece = |part: &str| json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": part}});
    check(pieces(&[piece(""), piece("{\"at\":"), piece("\"wall\"}")]), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{\"at\":\"wall\"}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn a_name_may_come_in_pieces() {
    let named = |part: &str| json!({"index": 0, "function": {"name": part}});
    let arguments = json!({"index": 0, "function": {"arguments": "{}"}});
    check(pieces(&[named("lo"), named("ok"), arguments]), expect![[r#"{"text":"","tool_calls":[{"id":"call_0","name":"look","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn calls_may_lack_an_index() {
    let piece = |id: &str, part: &str| json!({"id": id, "function": {"name": "look", "arguments": part}});
    check(pieces(&[piece("a", "{\"at\":"), piece("a", "1}"), piece("b", "{}")]), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{\"at\":1}"},{"id":"b","name":"look","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn calls_may_lack_index_and_id() {
    let piece = |part: &str| json!({"function": {"name": "look", "arguments": part}});
    check(pieces(&[piece("{\"at\":"), piece("1}"), piece("{}")]), expect![[r#"{"text":"","tool_calls":[{"id":"call_0","name":"look","arguments":"{\"at\":1}"},{"id":"call_1","name":"look","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
    let call = |name: &str| json!({"function": {"name": name, "arguments": "{}"}});
    check(whole(&json!({"content": null, "tool_calls": [call("look"), call("paint")]})), expect![[r#"{"text":"","tool_calls":[{"id":"call_0","name":"look","arguments":"{}"},{"id":"call_1","name":"paint","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn calls_may_share_an_index() {
    let piece =
        |id: &str, part: &str| json!({"index": 0, "id": id, "function": {"name": "look", "arguments": part}});
    let rest = |part: &str| json!({"index": 0, "function": {"arguments": part}});
    check(pieces(&[piece("a", "{\"at\":"), rest("1}"), piece("b", "{\"at\":"), rest("2}")]), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{\"at\":1}"},{"id":"b","name":"look","arguments":"{\"at\":2}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn calls_may_be_counted_from_one() {
    let call = json!({"index": 1, "id": "a", "function": {"name": "look", "arguments": "{}"}});
    check(pieces(&[call]), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn too_many_calls_are_no_reply() {
    let call = json!({"index": 4_000_000_000_u64, "function": {"name": "look", "arguments": "{}"}});
    let (_, outcome) = ask_script(BackendKind::OpenAi, pieces(&[call]), |config| config.retries = 0).await;
    assert_eq!(shown(&outcome), "Incomplete: the reply is incomplete: more than 128 tool calls");
}

#[tokio::test]
async fn arguments_may_be_an_object() {
    let call = json!({"id": "a", "function": {"name": "look", "arguments": {"at": "wall"}}});
    check(whole(&json!({"content": null, "tool_calls": [call]})), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{\"at\":\"wall\"}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
    check(pieces(&[call]), expect![[r#"{"text":"","tool_calls":[{"id":"a","name":"look","arguments":"{\"at\":\"wall\"}"}],"stop":{"reason":"tool_calls"},"usage":{"input":0,"output":0}}"#]]).await;
}

#[tokio::test]
async fn content_may_be_null_or_parts() {
    check(
        whole(&json!({"content": null})),
        expect![[r#"{"text":"","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#]],
    )
    .await;
    let parts = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "green"},
    ]);
    check(
        whole(&json!({"content": parts})),
        expect![[r#"{"text":"green","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#]],
    )
    .await;
}

#[tokio::test]
async fn reasoning_may_come_under_either_name_or_both() {
    for message in [json!({"reasoning": "hm"}), json!({"reasoning_content": "hm"})] {
        let (_, outcome) = ask_script(BackendKind::OpenAi, whole(&message), |_| {}).await;
        assert_eq!(outcome.unwrap().reasoning, "hm", "{message}");
    }
    check(
        whole(&json!({"content": "green", "reasoning": "hm", "reasoning_content": "hm"})),
        expect![[
            r#"{"text":"green","reasoning":"hm","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#
        ]],
    )
    .await;
    check(
        whole(&json!({"content": "green", "reasoning": {"effort": "low"}})),
        expect![[r#"{"text":"green","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#]],
    )
    .await;
}

#[tokio::test]
async fn an_empty_reason_and_empty_events_say_nothing() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"gre\"},\"finish_reason\":\"\"}]}\n\n\
                data:\n\n\
                data: {\"choices\":[{\"delta\":{\"content\":\"en\"},\"finish_reason\":\"\"}]}\n\n\
                data: [DONE] \n\n";
    let step = Step::status(200).content_type("text/event-stream").body(body);
    check(step, expect![[r#"{"text":"green","stop":{"reason":"finished"},"usage":{"input":0,"output":0}}"#]])
        .await;
}

#[tokio::test]
async fn a_stream_may_come_without_a_content_type() {
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
async fn messages_may_end_like_chat_completions() {
    let step = Step::text("green").malformed_chunk(9, "data: [DONE]").malformed_chunk(1, "data:");
    let (_, outcome) = ask_script(BackendKind::Anthropic, step, |_| {}).await;
    assert_eq!(outcome.unwrap().text, "green");
}

#[tokio::test]
async fn the_estimate_counts_all_that_is_read() {
    let text = |tokens: usize| "x".repeat(4 * tokens);
    // As JSON two bytes longer.
    let schema = |tokens: usize| json!("x".repeat(4 * tokens - 2));
    let call = ToolCall { id: "a".to_owned(), name: text(4), arguments: text(8) };
    let tool = Tool { name: text(16), description: text(32), parameters: schema(64), strict: false };
    let request = Request {
        system: Some(text(1)),
        messages: vec![Message::user(text(2)), Message::assistant("", vec![call]), Message::tool("a", "")],
        tools: vec![tool],
        format: Format::JsonSchema { name: "s".to_owned(), schema: schema(128), strict: true },
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

/// A server that does not know `stream_options` and says so in these words.
fn strict_server(status: u16, words: &'static str) -> ScriptedServer {
    ScriptedServer::respond(move |request, _| {
        if request.body.get("stream_options").is_some() {
            Step::status(status).body(words)
        } else {
            Step::text("green").without_usage()
        }
    })
}

#[tokio::test]
async fn a_server_that_refuses_to_count_is_asked_without_from_then_on() {
    let cases = [
        (400, r#"{"error": {"message": "Unrecognized request argument: stream_options"}}"#),
        (422, r#"{"detail": [{"loc": ["body", "stream_options"], "msg": "extra fields not permitted"}]}"#),
    ];
    for kind in [BackendKind::OpenAi, BackendKind::Completions] {
        for (status, words) in cases {
            let server = strict_server(status, words);
            let backend = open(&config(&server, kind));
            for _ in 0..2 {
                let reply = ask(backend.as_ref()).await.unwrap();
                assert!(reply.text == "green" && reply.usage.estimated, "{reply:?}");
            }
            let counted = |index: usize| server.requests()[index].body.get("stream_options").is_some();
            assert_eq!([counted(0), counted(1), counted(2)], [true, false, false], "{kind:?} {status}");
            assert_eq!(server.requests().len(), 3);
        }
    }
}

#[tokio::test]
async fn a_complaint_that_repeats_the_request_is_not_a_refusal_to_count() {
    let server = ScriptedServer::respond(|request, _| {
        Step::status(400).body(format!("no such model in {}", String::from_utf8_lossy(&request.raw)))
    });
    let backend = open(&config(&server, BackendKind::OpenAi));
    for _ in 0..2 {
        ask(backend.as_ref()).await.unwrap_err();
    }
    let counted = |index: usize| server.requests()[index].body.get("stream_options").is_some();
    assert_eq!([counted(0), counted(1), counted(2)], [true, false, true]);
}

#[tokio::test]
async fn another_refusal_is_final() {
    let server = strict_server(400, "no such model");
    open(&config(&server, BackendKind::OpenAi)).call(Call::new(&question())).await.unwrap_err();
    assert_eq!(server.requests().len(), 1);
}

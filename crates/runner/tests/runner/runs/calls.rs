//! Several tool calls in one reply, and calls that go wrong.

use std::sync::Arc;

use expect_test::expect;
use serde_json::{Value, json};
use slipform_testkit::{Recorded, ScriptedServer, Step};
use slipform_tools::Error;
use slipform_types::{BackendKind, EventBody, StructuredOutput};
use tokio::sync::{Barrier, Semaphore};

use crate::support::contexts::{TestRun, rung, test_run};
use crate::support::fakes::{FakeTool, with_tools};
use crate::support::folder::Folder;
use crate::support::model::{ModelTurn, answers};
use crate::support::outcome::{completed, names, run};

/// Returns the context of an agent with these tools, which submits an object with `ok`.
fn acting(tools: &[&str], server: &ScriptedServer) -> TestRun {
    let agent = json!({
        "name": "actor", "tools": tools,
        "output_schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}},
    });
    let ladder = vec![rung("default", BackendKind::OpenAi, server, StructuredOutput::Auto)];
    test_run(&agent, "Act.", json!({}), ladder)
}

/// Starts a model that replies with these steps in order.
fn says(steps: Vec<Step>) -> ScriptedServer {
    ScriptedServer::start(steps)
}

fn submits() -> Step {
    Step::tool("submit_result", json!({"ok": true}))
}

/// Returns the answers in a request, with the ids of their calls.
fn answered(request: &Recorded) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let messages = request.body["messages"].as_array().unwrap().iter();
    let tools = messages.filter(|message| message["role"] == "tool");
    tools.map(|message| (text(&message["tool_call_id"]), text(&message["content"]))).collect()
}

#[tokio::test]
async fn calls_of_one_reply_run_concurrently_and_are_answered_in_order() {
    let (meeting, over) = (Arc::new(Barrier::new(2)), Arc::new(Semaphore::new(0)));
    let (first_meeting, first_over) = (meeting.clone(), over.clone());
    // Both calls wait until the other has started, and the first ends after the second.
    let first = FakeTool::new("meet:first", move |_| {
        let (meeting, over) = (first_meeting.clone(), first_over.clone());
        async move {
            meeting.wait().await;
            over.acquire().await.unwrap().forget();
            Ok(json!("first"))
        }
    });
    let second = FakeTool::new("meet:second", move |_| {
        let (meeting, over) = (meeting.clone(), over.clone());
        async move {
            meeting.wait().await;
            over.add_permits(1);
            Ok(json!("second"))
        }
    });
    let calls = vec![("meet:first", json!({})), ("meet:second", json!({}))];
    let mut calls = Some(calls);
    let server = ScriptedServer::respond(move |request, _| match answers(request).len() {
        0 => ModelTurn::Call(calls.take().unwrap()).step(request),
        _ => submits(),
    });
    let context = with_tools(acting(&["meet:first", "meet:second"], &server), &[first, second]);
    let (outcome, journal) = run(&context).await;
    completed(outcome);
    expect![[r#"
        [
            "run_start",
            "attempt_started",
            "message",
            "pre_tool meet:first",
            "pre_tool meet:second",
            "post_tool meet:second",
            "post_tool meet:first",
            "message",
            "result",
            "run_completed",
        ]
    "#]]
    .assert_debug_eq(&names(&journal.events()));
    assert_eq!(answers(&server.requests()[1]), ["first", "second"]);
}

#[tokio::test]
async fn at_most_eight_tools_run_at_once() {
    // Eight concurrent calls release each other; the semaphore fails a ninth.
    let (meeting, room) = (Arc::new(Barrier::new(8)), Arc::new(Semaphore::new(8)));
    let tool = FakeTool::new("meet", move |arguments: Value| {
        let (meeting, room) = (meeting.clone(), room.clone());
        async move {
            let _place = room.try_acquire().map_err(|_| Error::Failed("too many at once".to_owned()))?;
            meeting.wait().await;
            Ok(arguments["number"].clone())
        }
    });
    let server = ScriptedServer::respond(|request, index| match index {
        0 => {
            ModelTurn::Call((0..16).map(|number| ("meet", json!({"number": number}))).collect()).step(request)
        }
        _ => submits(),
    });
    let context = with_tools(acting(&["meet"], &server), &[tool]);
    completed(run(&context).await.0);
    let numbers: Vec<String> = (0..16).map(|number| number.to_string()).collect();
    assert_eq!(answers(&server.requests()[1]), numbers);
}

#[tokio::test]
async fn writes_of_one_reply_are_made_in_order() {
    let folder = Folder::new("writes");
    let write = |text: &str| json!({"path": "notes.txt", "content": text});
    let edit = |old: &str, new: &str| json!({"path": "notes.txt", "old_text": old, "new_text": new});
    let server = says(vec![
        Step::tool("fs_write", write("one"))
            .and_tool("fs_edit", edit("one", "two"))
            .and_tool("fs_edit", edit("two", "three"))
            .and_tool("fs_write", json!({"path": "other.txt", "content": "x"}))
            .and_tool("fs_edit", edit("three", "four")),
        submits(),
    ]);
    let context = acting(&["fs:write", "fs:edit"], &server);
    let (outcome, journal) = run(&TestRun { project_dir: folder.path(), ..context }).await;
    completed(outcome);
    assert_eq!((folder.read("notes.txt").as_str(), folder.read("other.txt").as_str()), ("four", "x"));
    let happened = names(&journal.events());
    assert!(!happened.iter().any(|name| name.ends_with("failed")), "{happened:?}");
}

#[tokio::test]
async fn wrong_calls_are_reported_and_the_run_continues() {
    let number = json!({
        "type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}},
        "additionalProperties": false,
    });
    let tool = FakeTool::with_parameters("count", number, |arguments| std::future::ready(Ok(arguments)));
    let server = says(vec![
        Step::tool("counts", json!({"n": 1}))
            .and_tool("count", json!({}))
            .and_tool("count", json!({"n": "x"})),
        Step::tool("count", "{\"n\": ").and_tool("count", "{'n': 3}").and_tool("count", json!({"n": 4})),
        submits(),
    ]);
    let context = with_tools(acting(&["count"], &server), std::slice::from_ref(&tool));
    let (outcome, journal) = run(&context).await;
    let success = completed(outcome);
    // The arguments in single quotes are unambiguous and need no retry.
    assert_eq!(tool.call_count(), 2);
    assert_eq!((success.receipt.calls, success.receipt.retries), (3, 0));
    let requests = server.requests();
    expect![[r#"
        [
            "Error: There is no tool 'counts'. The tools are: count, submit_result.",
            "Error: The arguments of count are wrong, and it was not called:\n- $.n: required property is missing\nCall it again with arguments that match its schema.",
            "Error: The arguments of count are wrong, and it was not called:\n- $.n: must be an integer, not a string ('x')\nCall it again with arguments that match its schema.",
            "Error: The arguments of count are wrong, and it was not called:\n- $: the text ends before the document does; send the whole document\n- $.n: required property is missing\nCall it again with arguments that match its schema.",
            "{\"n\":3}",
            "{\"n\":4}",
        ]
    "#]]
    .assert_debug_eq(&answers(&requests[2]));
    // Servers parse earlier calls again, and some fail on arguments that are not an object.
    let messages = requests[2].body["messages"].as_array().unwrap().iter();
    for call in messages.filter_map(|message| message["tool_calls"].as_array()).flatten() {
        let arguments = call["function"]["arguments"].as_str().unwrap();
        assert!(serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()), "{arguments}");
    }
    let made = journal.events();
    let pre = made.iter().filter(|event| matches!(event.body, EventBody::PreTool { .. })).count();
    assert_eq!(pre, 2);
}

/// Returns a chat completion with calls that have these ids.
fn with_ids(calls: &[(&str, &str)]) -> Step {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, arguments)| {
            json!({"id": id, "type": "function", "function": {"name": "echo", "arguments": arguments}})
        })
        .collect();
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    let body = json!({"id": "x", "object": "chat.completion", "model": "m", "choices": [choice]});
    Step::text("").body(body.to_string()).plain_only()
}

#[tokio::test]
async fn calls_with_one_id_are_told_apart_and_duplicates_are_merged() {
    let tool = FakeTool::echo("echo");
    let server = says(vec![
        with_ids(&[("a", "{\"n\":1}"), ("a", "{\"n\":2}"), ("a", "{\"n\":1}"), ("", "{\"n\":3}")]),
        with_ids(&[("a", "{\"n\":4}")]),
        submits(),
    ]);
    let context = with_tools(acting(&["echo"], &server), std::slice::from_ref(&tool));
    completed(run(&context).await.0);
    assert_eq!(tool.call_count(), 4);
    expect![[r#"
        [
            (
                "a",
                "{\"heard\":{\"n\":1}}",
            ),
            (
                "a-1-1",
                "{\"heard\":{\"n\":2}}",
            ),
            (
                "call_3",
                "{\"heard\":{\"n\":3}}",
            ),
            (
                "a-2-1",
                "{\"heard\":{\"n\":4}}",
            ),
        ]
    "#]]
    .assert_debug_eq(&answered(&server.requests()[2]));
}

#[tokio::test]
async fn result_beside_calls_counts_after_the_calls_are_answered() {
    let tool = FakeTool::echo("echo");
    let server = says(vec![Step::tool("submit_result", json!({"ok": true})).and_tool("echo", json!({}))]);
    let context = with_tools(acting(&["echo"], &server), std::slice::from_ref(&tool));
    let success = completed(run(&context).await.0);
    assert_eq!((success.result_data, tool.call_count()), (Some(json!({"ok": true})), 1));
}

#[tokio::test]
async fn invalid_result_beside_calls_is_corrected_after_their_answers() {
    let tool = FakeTool::echo("echo");
    let both = Step::tool("echo", json!({"n": 1})).and_tool("submit_result", json!({"ok": "yes"}));
    let server = says(vec![both, submits()]);
    let context = with_tools(acting(&["echo"], &server), std::slice::from_ref(&tool));
    let success = completed(run(&context).await.0);
    assert_eq!((success.receipt.calls, success.receipt.retries, tool.call_count()), (2, 1, 1));
    let received = answered(&server.requests()[1]);
    assert_eq!(received.len(), 2, "{received:?}");
    assert_eq!(received[0].1, "{\"heard\":{\"n\":1}}");
    assert!(received[1].1.contains("$.ok: must be a boolean, not a string ('yes')"), "{received:?}");
}

#[tokio::test]
async fn first_valid_of_several_results_wins() {
    let server = says(vec![
        Step::tool("submit_result", json!({"ok": 1}))
            .and_tool("submit_result", json!({"ok": false}))
            .and_tool("submit_result", json!({"ok": true})),
    ]);
    let context = with_tools(acting(&["echo"], &server), &[FakeTool::echo("echo")]);
    let success = completed(run(&context).await.0);
    assert_eq!(success.result_data, Some(json!({"ok": false})));
    assert_eq!(success.receipt.flags, ["submitted_twice", "no_tool_called"]);
}

#[tokio::test]
async fn tool_failure_is_reported_to_the_model() {
    let tool = FakeTool::new("break", |_| std::future::ready(Err(Error::Failed("no paint left".to_owned()))));
    let server = says(vec![Step::text("Let me see.").and_tool("break", json!({})), submits()]);
    let context = with_tools(acting(&["break"], &server), &[tool]);
    let (outcome, journal) = run(&context).await;
    completed(outcome);
    assert_eq!(answers(&server.requests()[1]), ["Error: no paint left"]);
    assert!(names(&journal.events()).contains(&"post_tool break failed".to_owned()));
    let message = &server.requests()[1].body["messages"][2];
    assert_eq!((&message["role"], &message["content"]), (&json!("assistant"), &json!("Let me see.")));
}

#[tokio::test]
async fn invented_tool_answer_is_ignored() {
    let call =
        json!({"action": "USE_TOOL", "reasoning": "", "content": "", "tool": "echo", "parameters": {"n": 1}});
    let made_up =
        json!({"action": "TOOL_RETURN", "reasoning": "", "content": "{\"heard\": 7}", "tool": "echo"});
    let end = |ok: bool| {
        let result = json!({"ok": ok});
        json!({"action": "NORMAL_RESPONSE", "reasoning": "", "content": "Done.", "parameters": result})
    };
    let end_text = end(false);
    for text in [
        format!("{call}\n{made_up}\n{end_text}"),
        format!("```json\n{call}\n```\nThe tool says:\n```json\n{made_up}\n```\n```json\n{end_text}\n```"),
    ] {
        let tool = FakeTool::echo("echo");
        let server = ScriptedServer::start([Step::text(text), Step::json(&end(true))]);
        let agent = json!({
            "name": "actor", "tools": ["echo"], "protocol": "actions",
            "output_schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}},
        });
        let ladder = vec![rung("default", BackendKind::Completions, &server, StructuredOutput::Auto)];
        let context = with_tools(test_run(&agent, "Act.", json!({}), ladder), std::slice::from_ref(&tool));
        let success = completed(run(&context).await.0);
        assert_eq!((success.result_data, tool.call_count()), (Some(json!({"ok": true})), 1));
        // The next request does not contain the invented answer.
        assert_eq!(answers(&server.requests()[1]), ["{\"heard\":{\"n\":1}}"]);
    }
}

#[tokio::test]
async fn answers_of_one_reply_share_a_message_if_the_protocol_requires_it() {
    let server = says(vec![
        Step::text("Let me see.").and_tool("echo", json!({"n": 1})).and_tool("echo", json!({"n": 2})),
        submits(),
    ]);
    let ladder = vec![rung("default", BackendKind::Anthropic, &server, StructuredOutput::Auto)];
    let context = with_tools(TestRun { ladder, ..acting(&["echo"], &server) }, &[FakeTool::echo("echo")]);
    completed(run(&context).await.0);
    let messages = server.requests()[1].body["messages"].clone();
    expect![[r#"
        [
          {
            "role": "user",
            "content": "Act."
          },
          {
            "role": "assistant",
            "content": [
              {
                "type": "text",
                "text": "Let me see."
              },
              {
                "type": "tool_use",
                "id": "toolu_0_1",
                "name": "echo",
                "input": {
                  "n": 1
                }
              },
              {
                "type": "tool_use",
                "id": "toolu_0_2",
                "name": "echo",
                "input": {
                  "n": 2
                }
              }
            ]
          },
          {
            "role": "user",
            "content": [
              {
                "type": "tool_result",
                "tool_use_id": "toolu_0_1",
                "content": "{\"heard\":{\"n\":1}}"
              },
              {
                "type": "tool_result",
                "tool_use_id": "toolu_0_2",
                "content": "{\"heard\":{\"n\":2}}"
              }
            ]
          }
        ]"#]]
    .assert_eq(&format!("{messages:#}"));
}

#[tokio::test]
async fn missing_arguments_are_an_empty_object() {
    let tool = FakeTool::echo("echo");
    let server = says(vec![
        Step::tool("echo", "").and_tool("echo", "{}").and_tool("echo", "null").and_tool("echo", " "),
        submits(),
    ]);
    let context = with_tools(acting(&["echo"], &server), std::slice::from_ref(&tool));
    completed(run(&context).await.0);
    assert_eq!(answers(&server.requests()[1]), ["{\"heard\":{}}"; 4]);
}

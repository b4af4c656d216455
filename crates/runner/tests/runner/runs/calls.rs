//! Calls that come in one reply, and calls that go wrong.

use std::sync::Arc;

use expect_test::expect;
use serde_json::{Value, json};
use slipform_runner::RunContext;
use slipform_testkit::{Recorded, ScriptedServer, Step};
use slipform_tools::Error;
use slipform_types::{BackendKind, EventBody, StructuredOutput};
use tokio::sync::{Barrier, Semaphore};

use crate::support::contexts::{claim, rung};
use crate::support::folder::Folder;
use crate::support::model::{Move, answers};
use crate::support::parts::{Played, with_tools};
use crate::support::perform::{completed, names, run};

/// A claim of an agent with these tools, which gives an object with `ok`.
fn acting(tools: &[&str], server: &ScriptedServer) -> RunContext {
    let agent = json!({
        "name": "actor", "tools": tools,
        "output_schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}},
    });
    let ladder = vec![rung("default", BackendKind::OpenAi, server, StructuredOutput::Auto)];
    claim(&agent, "Act.", json!({}), ladder)
}

/// A model that says these steps in order.
fn says(steps: Vec<Step>) -> ScriptedServer {
    ScriptedServer::start(steps)
}

fn submits() -> Step {
    Step::tool("submit_result", json!({"ok": true}))
}

/// The answers that a request shows, by the ids of the calls.
fn answered(request: &Recorded) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let messages = request.body["messages"].as_array().unwrap().iter();
    let tools = messages.filter(|message| message["role"] == "tool");
    tools.map(|message| (text(&message["tool_call_id"]), text(&message["content"]))).collect()
}

#[tokio::test]
async fn calls_of_one_reply_overlap_and_are_answered_in_their_order() {
    let (meeting, over) = (Arc::new(Barrier::new(2)), Arc::new(Semaphore::new(0)));
    let (first_meeting, first_over) = (meeting.clone(), over.clone());
    // Neither ends before both are called, and the first only after the second.
    let first = Played::new("meet:first", move |_| {
        let (meeting, over) = (first_meeting.clone(), first_over.clone());
        async move {
            meeting.wait().await;
            over.acquire().await.unwrap().forget();
            Ok(json!("first"))
        }
    });
    let second = Played::new("meet:second", move |_| {
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
        0 => Move::Call(calls.take().unwrap()).said(request),
        _ => submits(),
    });
    let claim = with_tools(acting(&["meet:first", "meet:second"], &server), &[first, second]);
    let (outcome, journal) = run(&claim).await;
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
async fn no_more_than_eight_tools_work_at_once() {
    // Eight have to be there for any to go on; a ninth would be told by the count of those who work.
    let (meeting, room) = (Arc::new(Barrier::new(8)), Arc::new(Semaphore::new(8)));
    let tool = Played::new("meet", move |arguments: Value| {
        let (meeting, room) = (meeting.clone(), room.clone());
        async move {
            let _place = room.try_acquire().map_err(|_| Error::Failed("too many at once".to_owned()))?;
            meeting.wait().await;
            Ok(arguments["number"].clone())
        }
    });
    let server = ScriptedServer::respond(|request, index| match index {
        0 => Move::Call((0..16).map(|number| ("meet", json!({"number": number}))).collect()).said(request),
        _ => submits(),
    });
    let claim = with_tools(acting(&["meet"], &server), &[tool]);
    completed(run(&claim).await.0);
    let numbers: Vec<String> = (0..16).map(|number| number.to_string()).collect();
    assert_eq!(answers(&server.requests()[1]), numbers);
}

#[tokio::test]
async fn writes_of_one_reply_are_made_in_their_order() {
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
    let claim = acting(&["fs:write", "fs:edit"], &server);
    let (outcome, journal) = run(&RunContext { project_dir: folder.path(), ..claim }).await;
    completed(outcome);
    assert_eq!((folder.read("notes.txt").as_str(), folder.read("other.txt").as_str()), ("four", "x"));
    let happened = names(&journal.events());
    assert!(!happened.iter().any(|name| name.ends_with("failed")), "{happened:?}");
}

#[tokio::test]
async fn wrong_calls_are_told_and_the_run_goes_on() {
    let number = json!({
        "type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}},
        "additionalProperties": false,
    });
    let tool = Played::taking("count", number, |arguments| std::future::ready(Ok(arguments)));
    let server = says(vec![
        Step::tool("counts", json!({"n": 1}))
            .and_tool("count", json!({}))
            .and_tool("count", json!({"n": "x"})),
        Step::tool("count", "{\"n\": ").and_tool("count", "{'n': 3}").and_tool("count", json!({"n": 4})),
        submits(),
    ]);
    let claim = with_tools(acting(&["count"], &server), std::slice::from_ref(&tool));
    let (outcome, journal) = run(&claim).await;
    let success = completed(outcome);
    // The arguments in the wrong quotes can only mean one thing, and are no reason to ask again.
    assert_eq!(tool.called(), 2);
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
    // Servers read earlier calls again, and some fall over arguments that are no object.
    let messages = requests[2].body["messages"].as_array().unwrap().iter();
    for call in messages.filter_map(|message| message["tool_calls"].as_array()).flatten() {
        let arguments = call["function"]["arguments"].as_str().unwrap();
        assert!(serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()), "{arguments}");
    }
    let made = journal.events();
    let pre = made.iter().filter(|event| matches!(event.body, EventBody::PreTool { .. })).count();
    assert_eq!(pre, 2);
}

/// A reply of chat completions with calls of these ids.
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
async fn calls_of_one_id_are_told_apart_and_the_same_call_twice_is_one() {
    let tool = Played::echo("echo");
    let server = says(vec![
        with_ids(&[("a", "{\"n\":1}"), ("a", "{\"n\":2}"), ("a", "{\"n\":1}"), ("", "{\"n\":3}")]),
        with_ids(&[("a", "{\"n\":4}")]),
        submits(),
    ]);
    let claim = with_tools(acting(&["echo"], &server), std::slice::from_ref(&tool));
    completed(run(&claim).await.0);
    assert_eq!(tool.called(), 4);
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
async fn a_result_beside_calls_counts_once_they_are_answered() {
    let tool = Played::echo("echo");
    let server = says(vec![Step::tool("submit_result", json!({"ok": true})).and_tool("echo", json!({}))]);
    let claim = with_tools(acting(&["echo"], &server), std::slice::from_ref(&tool));
    let success = completed(run(&claim).await.0);
    assert_eq!((success.result_data, tool.called()), (Some(json!({"ok": true})), 1));
}

#[tokio::test]
async fn a_bad_result_beside_calls_is_corrected_after_their_answers() {
    let tool = Played::echo("echo");
    let both = Step::tool("echo", json!({"n": 1})).and_tool("submit_result", json!({"ok": "yes"}));
    let server = says(vec![both, submits()]);
    let claim = with_tools(acting(&["echo"], &server), std::slice::from_ref(&tool));
    let success = completed(run(&claim).await.0);
    assert_eq!((success.receipt.calls, success.receipt.retries, tool.called()), (2, 1, 1));
    let heard = answered(&server.requests()[1]);
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(heard[0].1, "{\"heard\":{\"n\":1}}");
    assert!(heard[1].1.contains("$.ok: must be a boolean, not a string ('yes')"), "{heard:?}");
}

#[tokio::test]
async fn of_two_results_the_first_that_is_valid_wins() {
    let server = says(vec![
        Step::tool("submit_result", json!({"ok": 1}))
            .and_tool("submit_result", json!({"ok": false}))
            .and_tool("submit_result", json!({"ok": true})),
    ]);
    let claim = with_tools(acting(&["echo"], &server), &[Played::echo("echo")]);
    let success = completed(run(&claim).await.0);
    assert_eq!(success.result_data, Some(json!({"ok": false})));
    assert_eq!(success.receipt.flags, ["submitted_twice"]);
}

#[tokio::test]
async fn a_tool_that_fails_is_told_to_the_model() {
    let tool = Played::new("break", |_| std::future::ready(Err(Error::Failed("no paint left".to_owned()))));
    let server = says(vec![Step::text("Let me see.").and_tool("break", json!({})), submits()]);
    let claim = with_tools(acting(&["break"], &server), &[tool]);
    let (outcome, journal) = run(&claim).await;
    completed(outcome);
    assert_eq!(answers(&server.requests()[1]), ["Error: no paint left"]);
    assert!(names(&journal.events()).contains(&"post_tool break failed".to_owned()));
    let said = &server.requests()[1].body["messages"][2];
    assert_eq!((&said["role"], &said["content"]), (&json!("assistant"), &json!("Let me see.")));
}

#[tokio::test]
async fn a_model_that_invents_the_answer_of_a_tool_is_not_believed() {
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
        let tool = Played::echo("echo");
        let server = ScriptedServer::start([Step::text(text), Step::json(&end(true))]);
        let agent = json!({
            "name": "actor", "tools": ["echo"], "protocol": "actions",
            "output_schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}},
        });
        let ladder = vec![rung("default", BackendKind::Completions, &server, StructuredOutput::Auto)];
        let claim = with_tools(claim(&agent, "Act.", json!({}), ladder), std::slice::from_ref(&tool));
        let success = completed(run(&claim).await.0);
        assert_eq!((success.result_data, tool.called()), (Some(json!({"ok": true})), 1));
        // Nor is it shown its invention again.
        assert_eq!(answers(&server.requests()[1]), ["{\"heard\":{\"n\":1}}"]);
    }
}

#[tokio::test]
async fn answers_of_one_reply_are_one_message_where_the_protocol_wants_that() {
    let server = says(vec![
        Step::text("Let me see.").and_tool("echo", json!({"n": 1})).and_tool("echo", json!({"n": 2})),
        submits(),
    ]);
    let ladder = vec![rung("default", BackendKind::Anthropic, &server, StructuredOutput::Auto)];
    let claim = with_tools(RunContext { ladder, ..acting(&["echo"], &server) }, &[Played::echo("echo")]);
    completed(run(&claim).await.0);
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
async fn a_call_without_arguments_is_one_with_none() {
    let tool = Played::echo("echo");
    let server = says(vec![
        Step::tool("echo", "").and_tool("echo", "{}").and_tool("echo", "null").and_tool("echo", " "),
        submits(),
    ]);
    let claim = with_tools(acting(&["echo"], &server), std::slice::from_ref(&tool));
    completed(run(&claim).await.0);
    assert_eq!(answers(&server.requests()[1]), ["{\"heard\":{}}"; 4]);
}

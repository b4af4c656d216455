//! Resumed sessions: the model sees the tool calls of earlier runs in the form of its protocol.

use std::collections::HashSet;

use serde_json::{Value, json};
use slipform_runner::StopSignal;
use slipform_testkit::{Recorded, ScriptedServer, Step};
use slipform_types::{BackendKind, RunId, RunType, StructuredOutput};

use crate::support::contexts::{TestRun, drive_to_end, journal, rung, test_run};
use crate::support::fakes::{FakeTool, with_tools};
use crate::support::model::{ModelTurn, answers};
use crate::support::outcome::completed;

fn acting(protocol: &str, kind: BackendKind, server: &ScriptedServer) -> TestRun {
    let agent = json!({
        "name": "actor", "tools": ["echo"], "protocol": protocol,
        "output_schema": {"type": "object", "required": ["heard"]},
    });
    let ladder = vec![rung("default", kind, server, StructuredOutput::Auto)];
    with_tools(test_run(&agent, "First.", json!({}), ladder), &[FakeTool::echo("echo")])
}

/// Returns the next run of a session.
fn next(context: &TestRun, number: u8) -> TestRun {
    TestRun {
        run_id: RunId::from_random([number; 6]),
        run_type: RunType::ResumeSession,
        parameters: json!({"prompt": "Then?"}),
        input: "Then?".to_owned(),
        ..context.clone()
    }
}

/// Starts a model that calls once in each run and submits the number of answers it has received.
fn model() -> ScriptedServer {
    ScriptedServer::respond(|request, _| {
        let answered = answers(request).len();
        let runs = 1 + request.prompt().matches("Then?").count();
        if answered < runs {
            ModelTurn::call("echo", json!({"run": runs})).step(request)
        } else {
            ModelTurn::Submit(json!({"heard": answered})).step(request)
        }
    })
}

#[tokio::test]
async fn tool_calls_of_earlier_runs_are_shown_under_both_protocols() {
    for kind in [BackendKind::OpenAi, BackendKind::Anthropic, BackendKind::Completions] {
        for protocol in ["tools", "actions"] {
            let what = format!("{} by {protocol}", kind.name());
            let (journal, server) = (journal(), model());
            let first = acting(protocol, kind, &server);
            for (number, context) in [first.clone(), next(&first, 3), next(&first, 4)].iter().enumerate() {
                let outcome = drive_to_end(context, &journal, &StopSignal::default(), &()).await.unwrap();
                assert_eq!(completed(outcome).result_data, Some(json!({"heard": number + 1})), "{what}");
            }
            assert_eq!(server.requests().len(), 6, "{what}");
        }
    }
}

fn ids(request: &Recorded) -> Vec<String> {
    let messages = request.body["messages"].as_array().unwrap().iter();
    let calls = messages.filter_map(|message| message["tool_calls"].as_array()).flatten();
    calls.map(|call| call["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns a reply with a call that always has the same id.
fn with_id(name: &str, arguments: &Value) -> Step {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    let calls = json!([{"id": "call_0", "type": "function", "function": function}]);
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    let body = json!({"id": "x", "object": "chat.completion", "model": "m", "choices": [choice]});
    Step::text("").body(body.to_string()).plain_only()
}

#[tokio::test]
async fn repeated_call_ids_are_made_unique() {
    let (journal, echo) = (journal(), || with_id("echo", &json!({})));
    let bad = || with_id("submit_result", &json!({}));
    let good = || with_id("submit_result", &json!({"heard": 0}));
    let server = ScriptedServer::start([echo(), echo(), bad(), good(), echo(), bad(), good()]);
    let first = acting("tools", BackendKind::OpenAi, &server);
    for context in [first.clone(), next(&first, 3)] {
        completed(drive_to_end(&context, &journal, &StopSignal::default(), &()).await.unwrap());
    }
    for request in server.requests() {
        let ids = ids(&request);
        let different: HashSet<&String> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{ids:?}");
    }
    assert_eq!(ids(&server.requests()[6]).len(), 4);
}

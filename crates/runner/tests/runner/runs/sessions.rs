//! Sessions that go on: what earlier runs did is shown to the model, in the words of its protocol.

use std::collections::HashSet;

use serde_json::{Value, json};
use slipform_runner::{RunContext, StopSignal, perform};
use slipform_testkit::{Recorded, ScriptedServer, Step};
use slipform_types::{BackendKind, RunId, RunType, StructuredOutput};

use crate::support::contexts::{claim, journal, rung};
use crate::support::model::{Move, answers};
use crate::support::parts::{Played, with_tools};
use crate::support::perform::completed;

fn acting(protocol: &str, kind: BackendKind, server: &ScriptedServer) -> RunContext {
    let agent = json!({
        "name": "actor", "tools": ["echo"], "protocol": protocol,
        "output_schema": {"type": "object", "required": ["heard"]},
    });
    let ladder = vec![rung("default", kind, server, StructuredOutput::Auto)];
    with_tools(claim(&agent, "First.", json!({}), ladder), &[Played::echo("echo")])
}

/// The run that goes on with a claim's session.
fn next(claim: &RunContext, number: u8) -> RunContext {
    RunContext {
        run_id: RunId::from_random([number; 6]),
        run_type: RunType::ResumeSession,
        parameters: json!({"prompt": "Then?"}),
        input: "Then?".to_owned(),
        ..claim.clone()
    }
}

/// A model that calls once in each run, and submits how many answers it has heard by then.
fn model() -> ScriptedServer {
    ScriptedServer::respond(|request, _| {
        let heard = answers(request).len();
        let runs = 1 + request.prompt().matches("Then?").count();
        match heard < runs {
            true => Move::call("echo", json!({"run": runs})).said(request),
            false => Move::Submit(json!({"heard": heard})).said(request),
        }
    })
}

#[tokio::test]
async fn tools_of_earlier_runs_are_remembered_under_both_protocols() {
    for kind in [BackendKind::OpenAi, BackendKind::Anthropic, BackendKind::Completions] {
        for protocol in ["tools", "actions"] {
            let what = format!("{} by {protocol}", kind.name());
            let (journal, server) = (journal(), model());
            let first = acting(protocol, kind, &server);
            for (number, claim) in [first.clone(), next(&first, 3), next(&first, 4)].iter().enumerate() {
                let outcome = perform(claim, &journal, &StopSignal::default(), &()).await.unwrap();
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

/// A reply with a call of this id.
fn with_id(name: &str, arguments: &Value) -> Step {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    let calls = json!([{"id": "call_0", "type": "function", "function": function}]);
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    let body = json!({"id": "x", "object": "chat.completion", "model": "m", "choices": [choice]});
    Step::text("").body(body.to_string()).plain_only()
}

#[tokio::test]
async fn servers_that_number_the_calls_of_each_reply_see_every_id_once() {
    let (journal, echo) = (journal(), || with_id("echo", &json!({})));
    let bad = || with_id("submit_result", &json!({}));
    let good = || with_id("submit_result", &json!({"heard": 0}));
    let server = ScriptedServer::start([echo(), echo(), bad(), good(), echo(), bad(), good()]);
    let first = acting("tools", BackendKind::OpenAi, &server);
    for claim in [first.clone(), next(&first, 3)] {
        completed(perform(&claim, &journal, &StopSignal::default(), &()).await.unwrap());
    }
    for request in server.requests() {
        let ids = ids(&request);
        let different: HashSet<&String> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{ids:?}");
    }
    assert_eq!(ids(&server.requests()[6]).len(), 4);
}

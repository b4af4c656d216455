//! Every limit ends a run in its own way, and nothing that was paid for is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use slipform_runner::{RunContext, StopSignal, perform};
use slipform_testkit::{ScriptedServer, Step};
use slipform_tools::Error;
use slipform_types::{BackendKind, Failure, RunErrorType, StructuredOutput};
use tokio::sync::Semaphore;

use crate::support::contexts::{claim, journal, rung};
use crate::support::model::Move;
use crate::support::parts::{Played, spoken, with_tools};
use crate::support::perform::{completed, failed, names, run};

fn agent(protocol: &str, limits: Value) -> Value {
    json!({
        "name": "actor", "tools": ["echo"], "protocol": protocol, "limits": limits,
        "output_schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}},
    })
}

fn limited(protocol: &str, limits: Value, server: &ScriptedServer, tool: &Arc<Played>) -> RunContext {
    let ladder = vec![rung("default", BackendKind::OpenAi, server, StructuredOutput::Auto)];
    with_tools(claim(&agent(protocol, limits), "Act.", json!({}), ladder), std::slice::from_ref(tool))
}

/// A model that never has enough.
fn restless() -> ScriptedServer {
    ScriptedServer::respond(|request, index| Move::call("echo", json!({"n": index})).said(request))
}

async fn failure(claim: &RunContext) -> Failure {
    failed(run(claim).await.0)
}

#[tokio::test]
async fn a_model_that_goes_on_past_its_steps_is_ended() {
    for protocol in ["tools", "actions"] {
        let (server, tool) = (restless(), Played::echo("echo"));
        let failure = failure(&limited(protocol, json!({"max_steps": 3}), &server, &tool)).await;
        assert_eq!(failure.error.kind, RunErrorType::LimitExceeded, "{protocol}");
        assert!(failure.error.message.contains("3 steps (limits.max_steps)"), "{}", failure.error.message);
        assert_eq!((server.requests().len(), tool.called()), (3, 2), "{protocol}");
        assert_eq!(failure.salvage.replies.len(), 3, "{protocol}");
        let spoken = failure.error.response.is_some_and(|response| response["action"] == "NORMAL_RESPONSE");
        assert_eq!(spoken, protocol == "actions");
    }
}

#[tokio::test]
async fn a_model_that_calls_too_much_is_ended() {
    for protocol in ["tools", "actions"] {
        let (server, tool) = (restless(), Played::echo("echo"));
        let failure = failure(&limited(protocol, json!({"max_tool_calls": 2}), &server, &tool)).await;
        assert_eq!(failure.error.kind, RunErrorType::LimitExceeded, "{protocol}");
        assert!(failure.error.message.contains("2 tool calls (limits.max_tool_calls)"), "{protocol}");
        assert_eq!((server.requests().len(), tool.called()), (3, 2), "{protocol}");
        assert_eq!(failure.salvage.replies.len(), 3, "{protocol}");
    }
}

#[tokio::test]
async fn the_last_step_is_told_and_can_be_used_to_answer() {
    let tool = Played::echo("echo");
    let server = ScriptedServer::respond(|request, index| match index {
        0 => Move::call("echo", json!({})).said(request),
        _ => Move::Submit(json!({"ok": true})).said(request),
    });
    let claim = limited("tools", json!({"max_tool_calls": 1}), &server, &tool);
    completed(run(&claim).await.0);
    let choice = &server.requests()[1].body["tool_choice"];
    assert_eq!(choice["function"]["name"], "submit_result");
}

/// Says when it is called, and whether it was dropped before it could end.
fn hanging() -> (Arc<Played>, Arc<Semaphore>, Arc<AtomicBool>) {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let (called, dropped) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let (says_called, says_dropped) = (called.clone(), dropped.clone());
    let tool = Played::new("echo", move |_| {
        says_called.add_permits(1);
        let dropped = Dropped(says_dropped.clone());
        async move {
            let _dropped = dropped;
            std::future::pending::<Result<Value, Error>>().await
        }
    });
    (tool, called, dropped)
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_is_left_when_the_time_is_up() {
    let call = json!({"id": "a", "name": "echo", "arguments": "{}"});
    let envelope = json!({
        "action": "USE_TOOL", "reasoning": "", "content": "", "tool": "echo", "parameters": {},
    });
    for (protocol, reply) in [
        ("tools", json!({"text": "Wait.", "tool_calls": [call], "stop": {"reason": "tool_calls"}})),
        ("actions", json!({"text": envelope.to_string()})),
    ] {
        let (tool, _, dropped) = hanging();
        let claim = claim(
            &agent(protocol, json!({"timeout_seconds": 30})),
            "Act.",
            json!({}),
            vec![spoken(vec![reply])],
        );
        let (outcome, journal) = run(&with_tools(claim, &[tool])).await;
        let failure = failed(outcome);
        assert_eq!(failure.error.kind, RunErrorType::Timeout, "{protocol}");
        assert!(failure.error.message.contains("30 s"), "{}", failure.error.message);
        assert_eq!(failure.salvage.replies.len(), 1, "{protocol}");
        assert!(dropped.load(Ordering::SeqCst), "{protocol}: the tool goes on");
        let happened = names(&journal.events());
        assert_eq!(happened[3..], ["pre_tool echo", "deadline_reached", "run_completed"], "{protocol}");
    }
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_tool_ends_it_and_the_run() {
    for protocol in ["tools", "actions"] {
        let (tool, called, dropped) = hanging();
        let server = restless();
        let claim = limited(protocol, json!({}), &server, &tool);
        let (journal, stop) = (journal(), StopSignal::default());
        let stopping = async {
            called.acquire().await.unwrap().forget();
            stop.request();
        };
        let (outcome, ()) = tokio::join!(perform(&claim, &journal, &stop, &()), stopping);
        let failure = failed(outcome.unwrap());
        assert_eq!(failure.error.kind, RunErrorType::Stopped, "{protocol}");
        assert_eq!(failure.salvage.replies.len(), 1, "{protocol}");
        assert!(dropped.load(Ordering::SeqCst), "{protocol}: the tool goes on");
        let events = journal.events();
        assert_eq!(names(&events)[3..], ["pre_tool echo", "stop_requested", "run_completed"], "{protocol}");
        let end = serde_json::to_value(&events.last().unwrap().body).unwrap();
        assert_eq!(end["status"], "stopped", "{protocol}");
    }
}

#[tokio::test]
async fn replies_that_are_cut_off_are_given_more_room_and_then_given_up() {
    for protocol in ["tools", "actions"] {
        let tool = Played::echo("echo");
        let server = ScriptedServer::respond(|request, index| match index {
            0 => Move::call("echo", json!({})).said(request),
            _ => Move::Submit(json!({"ok": true})).said(request).finish("length"),
        });
        let failure = failure(&limited(protocol, json!({"max_tokens": 100}), &server, &tool)).await;
        assert_eq!(failure.error.kind, RunErrorType::OutputTruncated, "{protocol}");
        assert_eq!(failure.salvage.replies.len(), 3, "{protocol}");
        assert_eq!(failure.salvage.best_candidate, Some(json!({"ok": true})), "{protocol}");
        let budgets: Vec<Value> =
            server.requests().iter().map(|request| request.body["max_tokens"].clone()).collect();
        assert_eq!(budgets, [100, 100, 200], "{protocol}");
        assert_eq!(tool.called(), 1, "{protocol}");
    }
}

#[tokio::test]
async fn calls_that_are_cut_off_are_not_made() {
    let tool = Played::echo("echo");
    let server = ScriptedServer::respond(|request, index| match index {
        0 => Step::tool("echo", "{\"path\": \"/half").finish("length"),
        _ => Move::Submit(json!({"ok": true})).said(request),
    });
    let success = completed(run(&limited("tools", json!({}), &server, &tool)).await.0);
    assert_eq!((success.receipt.retries, tool.called()), (1, 0));
}

#[tokio::test]
async fn a_tool_that_cannot_be_had_ends_the_run_before_anybody_is_asked() {
    let server = restless();
    let ladder = vec![rung("default", BackendKind::OpenAi, &server, StructuredOutput::Auto)];
    let claim = claim(&agent("tools", json!({})), "Act.", json!({}), ladder);
    let (outcome, journal) = run(&claim).await;
    let failure = failed(outcome);
    assert_eq!(failure.error.kind, RunErrorType::ToolFailed);
    assert!(failure.error.message.contains("there is no tool 'echo'"), "{}", failure.error.message);
    assert_eq!(server.requests().len(), 0);
    assert_eq!(names(&journal.events()), ["run_start", "tools_failed", "run_completed"]);
}

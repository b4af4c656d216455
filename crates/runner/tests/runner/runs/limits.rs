//! Every limit ends a run with its own error, and completed replies are kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use slipform_runner::StopSignal;
use slipform_testkit::{ScriptedServer, Step};
use slipform_tools::Error;
use slipform_types::{BackendKind, Failure, RunErrorType, StructuredOutput};
use tokio::sync::Semaphore;

use crate::support::contexts::{TestRun, drive_to_end, journal, rung, test_run};
use crate::support::fakes::{FakeTool, scripted_rung, with_tools};
use crate::support::model::ModelTurn;
use crate::support::outcome::{completed, failed, names, run};

fn agent(protocol: &str, limits: Value) -> Value {
    json!({
        "name": "actor", "tools": ["echo"], "protocol": protocol, "limits": limits,
        "output_schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}},
    })
}

fn limited(protocol: &str, limits: Value, server: &ScriptedServer, tool: &Arc<FakeTool>) -> TestRun {
    let ladder = vec![rung("default", BackendKind::OpenAi, server, StructuredOutput::Auto)];
    with_tools(test_run(&agent(protocol, limits), "Act.", json!({}), ladder), std::slice::from_ref(tool))
}

/// Starts a model that calls a tool in every step.
fn restless() -> ScriptedServer {
    ScriptedServer::respond(|request, index| ModelTurn::call("echo", json!({"n": index})).step(request))
}

async fn failure(context: &TestRun) -> Failure {
    failed(run(context).await.0)
}

#[tokio::test]
async fn run_over_max_steps_fails() {
    for protocol in ["tools", "actions"] {
        let (server, tool) = (restless(), FakeTool::echo("echo"));
        let failure = failure(&limited(protocol, json!({"max_steps": 3}), &server, &tool)).await;
        assert_eq!(failure.error.kind, RunErrorType::LimitExceeded, "{protocol}");
        assert!(failure.error.message.contains("3 steps (limits.max_steps)"), "{}", failure.error.message);
        assert_eq!((server.requests().len(), tool.call_count()), (3, 2), "{protocol}");
        assert_eq!(failure.salvage.replies.len(), 3, "{protocol}");
        let has_response =
            failure.error.response.is_some_and(|response| response["action"] == "NORMAL_RESPONSE");
        assert_eq!(has_response, protocol == "actions");
    }
}

#[tokio::test]
async fn run_over_max_tool_calls_fails() {
    for protocol in ["tools", "actions"] {
        let (server, tool) = (restless(), FakeTool::echo("echo"));
        let failure = failure(&limited(protocol, json!({"max_tool_calls": 2}), &server, &tool)).await;
        assert_eq!(failure.error.kind, RunErrorType::LimitExceeded, "{protocol}");
        assert!(failure.error.message.contains("2 tool calls (limits.max_tool_calls)"), "{protocol}");
        assert_eq!((server.requests().len(), tool.call_count()), (3, 2), "{protocol}");
        assert_eq!(failure.salvage.replies.len(), 3, "{protocol}");
    }
}

#[tokio::test]
async fn last_step_forces_a_submit() {
    let tool = FakeTool::echo("echo");
    let server = ScriptedServer::respond(|request, index| match index {
        0 => ModelTurn::call("echo", json!({})).step(request),
        _ => ModelTurn::Submit(json!({"ok": true})).step(request),
    });
    let context = limited("tools", json!({"max_tool_calls": 1}), &server, &tool);
    completed(run(&context).await.0);
    let choice = &server.requests()[1].body["tool_choice"];
    assert_eq!(choice["function"]["name"], "submit_result");
}

/// Returns a tool that hangs, a semaphore that counts its calls, and a flag that is set when a call is
/// dropped.
fn hanging() -> (Arc<FakeTool>, Arc<Semaphore>, Arc<AtomicBool>) {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let (called, dropped) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let (call_count, drop_flag) = (called.clone(), dropped.clone());
    let tool = FakeTool::new("echo", move |_| {
        call_count.add_permits(1);
        let dropped = Dropped(drop_flag.clone());
        async move {
            let _dropped = dropped;
            std::future::pending::<Result<Value, Error>>().await
        }
    });
    (tool, called, dropped)
}

#[tokio::test(start_paused = true)]
async fn hanging_tool_is_dropped_at_the_deadline() {
    let call = json!({"id": "a", "name": "echo", "arguments": "{}"});
    let envelope = json!({
        "action": "USE_TOOL", "reasoning": "", "content": "", "tool": "echo", "parameters": {},
    });
    for (protocol, reply) in [
        ("tools", json!({"text": "Wait.", "tool_calls": [call], "stop": {"reason": "tool_calls"}})),
        ("actions", json!({"text": envelope.to_string()})),
    ] {
        let (tool, _, dropped) = hanging();
        let context = test_run(
            &agent(protocol, json!({"timeout_seconds": 30})),
            "Act.",
            json!({}),
            vec![scripted_rung(vec![reply])],
        );
        let (outcome, journal) = run(&with_tools(context, &[tool])).await;
        let failure = failed(outcome);
        assert_eq!(failure.error.kind, RunErrorType::Timeout, "{protocol}");
        assert!(failure.error.message.contains("30 s"), "{}", failure.error.message);
        assert_eq!(failure.salvage.replies.len(), 1, "{protocol}");
        assert!(dropped.load(Ordering::SeqCst), "{protocol}: the tool still runs");
        let happened = names(&journal.events());
        assert_eq!(happened[3..], ["pre_tool echo", "deadline_reached", "run_completed"], "{protocol}");
    }
}

#[tokio::test]
async fn stop_during_a_tool_call_drops_it_and_ends_the_run() {
    for protocol in ["tools", "actions"] {
        let (tool, called, dropped) = hanging();
        let server = restless();
        let context = limited(protocol, json!({}), &server, &tool);
        let (journal, stop) = (journal(), StopSignal::default());
        let stopping = async {
            called.acquire().await.unwrap().forget();
            stop.request();
        };
        let (outcome, ()) = tokio::join!(drive_to_end(&context, &journal, &stop, &()), stopping);
        let failure = failed(outcome.unwrap());
        assert_eq!(failure.error.kind, RunErrorType::Stopped, "{protocol}");
        assert_eq!(failure.salvage.replies.len(), 1, "{protocol}");
        assert!(dropped.load(Ordering::SeqCst), "{protocol}: the tool still runs");
        let events = journal.events();
        assert_eq!(names(&events)[3..], ["pre_tool echo", "stop_requested", "run_completed"], "{protocol}");
        let end = serde_json::to_value(&events.last().unwrap().body).unwrap();
        assert_eq!(end["status"], "stopped", "{protocol}");
    }
}

#[tokio::test]
async fn truncated_replies_get_more_tokens_before_the_run_fails() {
    for protocol in ["tools", "actions"] {
        let tool = FakeTool::echo("echo");
        let server = ScriptedServer::respond(|request, index| match index {
            0 => ModelTurn::call("echo", json!({})).step(request),
            _ => ModelTurn::Submit(json!({"ok": true})).step(request).finish("length"),
        });
        let failure = failure(&limited(protocol, json!({"max_tokens": 100}), &server, &tool)).await;
        assert_eq!(failure.error.kind, RunErrorType::OutputTruncated, "{protocol}");
        assert_eq!(failure.salvage.replies.len(), 3, "{protocol}");
        assert_eq!(failure.salvage.best_candidate, Some(json!({"ok": true})), "{protocol}");
        let budgets: Vec<Value> =
            server.requests().iter().map(|request| request.body["max_tokens"].clone()).collect();
        assert_eq!(budgets, [100, 100, 200], "{protocol}");
        assert_eq!(tool.call_count(), 1, "{protocol}");
    }
}

#[tokio::test]
async fn truncated_calls_are_not_made() {
    let tool = FakeTool::echo("echo");
    let server = ScriptedServer::respond(|request, index| match index {
        0 => Step::tool("echo", "{\"path\": \"/half").finish("length"),
        _ => ModelTurn::Submit(json!({"ok": true})).step(request),
    });
    let success = completed(run(&limited("tools", json!({}), &server, &tool)).await.0);
    assert_eq!((success.receipt.retries, tool.call_count()), (1, 0));
}

#[tokio::test]
async fn unknown_tool_fails_the_run_before_the_first_call() {
    let server = restless();
    let ladder = vec![rung("default", BackendKind::OpenAi, &server, StructuredOutput::Auto)];
    let context = test_run(&agent("tools", json!({})), "Act.", json!({}), ladder);
    let (outcome, journal) = run(&context).await;
    let failure = failed(outcome);
    assert_eq!(failure.error.kind, RunErrorType::ToolFailed);
    assert!(failure.error.message.contains("there is no tool 'echo'"), "{}", failure.error.message);
    assert_eq!(server.requests().len(), 0);
    assert_eq!(names(&journal.events()), ["run_start", "tools_failed", "run_completed"]);
}

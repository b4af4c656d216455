//! One attempt, from its claim to its end.

use std::sync::Arc;

use serde_json::json;
use slipform_api::Code;
use slipform_runner::Resources;
use slipform_types::{Blueprint, EventBody, RunErrorType, RunStatus};
use tokio::time::{Duration, Instant};

use crate::support::contexts::resources;
use crate::support::fake_api::{FakeApi, run};
use crate::support::fakes::{FakeTool, scripted_rung, silent_rung, toolbox};
use crate::support::worker::{FakeResources, agent, ager, start};

/// Returns status, kind and message of the failure that a run ended with.
fn failure(body: &EventBody) -> (RunStatus, RunErrorType, String) {
    let EventBody::RunCompleted { status, error: Some(error), .. } = body else { panic!("{body:?}") };
    (*status, error.kind, error.message.clone())
}

#[tokio::test(start_paused = true)]
async fn run_is_claimed_driven_and_finished() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    let worker = start(&api, FakeResources::echoing(), 1);
    api.ended(1).await;
    worker.shut_down().await;
    assert_eq!(api.names(1), ["run_start", "attempt_started", "message", "result", "run_completed"]);
    assert_eq!(api.calls("append"), ["append 1 attempt_started", "append 2 message"]);
    assert_eq!(api.calls("finish"), ["finish 3 result,run_completed"]);
    assert_eq!(api.calls("release"), [""; 0], "a finished run is not released");
    let events = api.state().runs[&run(1)].events.clone();
    let EventBody::AttemptStarted { blueprint, .. } = &events[1].body else { panic!("{events:?}") };
    assert_eq!(*blueprint, None, "an agent without placeholders is journaled once");
    let EventBody::Result { result_text, .. } = &events[3].body else { panic!("{events:?}") };
    assert_eq!(result_text.as_deref(), Some("Do 1. Done."));
}

#[tokio::test(start_paused = true)]
async fn long_journal_is_read_in_pages() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    // An attempt ends after its second event; the next one has a journal of two pages.
    let worker = start(&api, FakeResources::silent(), 1);
    api.until("the first attempt", |state| state.runs[&run(1)].events.len() == 2).await;
    worker.shut_down().await;
    api.state().page_size = Some(1);
    api.fail("journal", Code::Unavailable, false);
    let worker = start(&api, FakeResources::echoing(), 1);
    api.ended(1).await;
    worker.shut_down().await;
    assert_eq!(api.calls("journal"), ["journal 1", "journal 1"], "the first request failed and was repeated");
    let names = ["run_start", "attempt_started", "attempt_started", "message", "result", "run_completed"];
    assert_eq!(api.names(1), names);
    assert_eq!(api.calls("leave"), ["leave rnr_1"; 2]);
}

#[tokio::test(start_paused = true)]
async fn resolved_placeholders_are_journaled_with_every_attempt() {
    let api = FakeApi::new();
    api.submit(1, json!({"name": "worker", "system_prompt": "Work on ${params.prompt}"}), None);
    let resources = FakeResources::with(|assignment| {
        assert_eq!(assignment.journal.first_run.run_id, assignment.run_id);
        let prompt = assignment.journal.first_run.parameters["prompt"].as_str().unwrap();
        let blueprint = Blueprint {
            system_prompt: Some(format!("Work on {prompt}")),
            ..(*assignment.journal.start.blueprint).clone()
        };
        // The first attempt hangs until its worker shuts down; the second one answers.
        let rung = if assignment.journal.events.len() == 1 {
            silent_rung()
        } else {
            scripted_rung(vec![json!({"text": "Yes."})])
        };
        Ok(Resources { blueprint: Arc::new(blueprint), ladder: vec![rung], ..resources(assignment) })
    });
    let first = start(&api, resources.clone(), 1);
    api.until("an attempt", |state| state.runs[&run(1)].events.len() == 2).await;
    first.shut_down().await;
    let second = start(&api, resources, 1);
    api.ended(1).await;
    second.shut_down().await;
    let prompts: Vec<_> = api.state().runs[&run(1)]
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::AttemptStarted { blueprint, .. } => blueprint.as_ref()?.system_prompt.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(prompts, ["Work on Do 1.", "Work on Do 1."]);
}

#[tokio::test(start_paused = true)]
async fn run_without_resources_ends_as_a_typed_failure() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    let worker = start(&api, FakeResources::with(|_| Err("there is no backend 'large'".to_owned())), 1);
    let ended = api.ended(1).await;
    worker.shut_down().await;
    assert_eq!(
        failure(&ended),
        (RunStatus::Failed, RunErrorType::ToolFailed, "there is no backend 'large'".to_owned())
    );
    assert_eq!(api.calls("finish"), ["finish 1 tools_failed,run_completed"]);
    assert_eq!(api.calls("release"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn run_with_a_pending_stop_is_not_started() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    api.state().stopping.insert(run(1));
    let worker = start(&api, FakeResources::silent(), 1);
    let ended = api.ended(1).await;
    worker.shut_down().await;
    assert_eq!(failure(&ended).1, RunErrorType::Stopped);
    assert_eq!(api.names(1), ["run_start", "stop_requested", "run_completed"]);
}

#[tokio::test(start_paused = true)]
async fn deadline_of_the_coordinator_overrides_the_blueprints_limit() {
    for (limit, left_ms) in [(3600, 2_000), (1, 90_000)] {
        let api = FakeApi::new();
        api.submit(1, json!({"name": "worker", "limits": {"timeout_seconds": limit}}), None);
        api.state().runs.get_mut(&run(1)).unwrap().time_left_ms = Some(left_ms);
        let began = Instant::now();
        let worker = start(&api, FakeResources::silent(), 1);
        let ended = api.ended(1).await;
        let (took, left) = (began.elapsed(), Duration::from_millis(left_ms as u64));
        assert!(took >= left && took < left + Duration::from_secs(1), "{limit} s: {took:?}");
        worker.shut_down().await;
        assert_eq!(failure(&ended).1, RunErrorType::Timeout);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_deadline_ends_the_run_at_once() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    api.state().runs.get_mut(&run(1)).unwrap().time_left_ms = Some(-5);
    let worker = start(&api, FakeResources::silent(), 1);
    let ended = api.ended(1).await;
    worker.shut_down().await;
    assert_eq!(failure(&ended).1, RunErrorType::Timeout);
}

#[tokio::test(start_paused = true)]
async fn result_rejected_by_the_coordinator_ends_as_a_typed_failure() {
    let api = FakeApi::new();
    let (agent, contract) = ager();
    api.submit(1, agent, Some(contract));
    api.fail("finish", Code::InvalidResult, false);
    let worker =
        start(&api, FakeResources::ladder(|_| vec![scripted_rung(vec![json!({"text": "{\"age\": 7}"})])]), 1);
    let ended = api.ended(1).await;
    worker.shut_down().await;
    let (status, kind, message) = failure(&ended);
    assert_eq!((status, kind), (RunStatus::Failed, RunErrorType::OutputSchemaValidationFailed));
    assert!(message.contains("finish fails"), "{message}");
    let EventBody::RunCompleted { salvage: Some(salvage), .. } = &ended else { panic!("{ended:?}") };
    assert_eq!(salvage.best_candidate, Some(json!({"age": 7})));
    // The rejected append was not written, so its number is used again.
    assert_eq!(api.calls("finish"), ["finish 3 result,run_completed", "finish 3 run_completed"]);
    assert_eq!(api.calls("release"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn panicking_tool_is_answered_and_the_run_continues() {
    let api = FakeApi::new();
    api.submit(1, json!({"name": "worker", "tools": ["echo"]}), None);
    let worker = start(
        &api,
        FakeResources::with(|assignment| {
            let call = json!({"id": "a", "name": "echo", "arguments": "{}"});
            let calls = json!({"tool_calls": [call], "stop": {"reason": "tool_calls"}});
            let ladder = vec![scripted_rung(vec![calls, json!({"text": "It broke."})])];
            let tool = FakeTool::new("echo", |_| async { panic!("the tool panics") });
            Ok(Resources { ladder, tools: toolbox(&[tool]), ..resources(assignment) })
        }),
        1,
    );
    let ended = api.ended(1).await;
    worker.shut_down().await;
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Completed, .. }), "{ended:?}");
    let events = api.state().runs[&run(1)].events.clone();
    let error = events.iter().find_map(|event| match &event.body {
        EventBody::PostTool { error, .. } => error.clone(),
        _ => None,
    });
    assert!(error.is_some_and(|error| error.starts_with("the tool broke")), "{events:?}");
}

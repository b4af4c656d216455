//! One attempt from its claim to its end.

use std::sync::Arc;

use serde_json::json;
use slipform_api::Code;
use slipform_runner::RunContext;
use slipform_types::{Blueprint, EventBody, RunErrorType, RunStatus};
use tokio::time::{Duration, Instant};

use crate::support::fake_api::{FakeApi, run};
use crate::support::parts::{Played, silent, spoken, with_tools};
use crate::support::worker::{FakeResources, agent, ager, start};

/// The kind of failure that a run ended with.
fn failure(body: &EventBody) -> (RunStatus, RunErrorType, String) {
    let EventBody::RunCompleted { status, error: Some(error), .. } = body else { panic!("{body:?}") };
    (*status, error.kind, error.message.clone())
}

#[tokio::test(start_paused = true)]
async fn a_run_is_claimed_driven_and_finished() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    let working = start(&door, FakeResources::answering(), 1);
    door.ended(1).await;
    working.go_home().await;
    assert_eq!(door.names(1), ["run_start", "attempt_started", "message", "result", "run_completed"]);
    assert_eq!(door.said("append"), ["append 1 attempt_started", "append 2 message"]);
    assert_eq!(door.said("finish"), ["finish 3 result,run_completed"]);
    assert_eq!(door.said("release"), [""; 0], "what has ended is not given back");
    let events = door.book().runs[&run(1)].events.clone();
    let EventBody::AttemptStarted { blueprint, .. } = &events[1].body else { panic!("{events:?}") };
    assert_eq!(*blueprint, None, "an agent without placeholders is said once");
    let EventBody::Result { result_text, .. } = &events[3].body else { panic!("{events:?}") };
    assert_eq!(result_text.as_deref(), Some("Do 1. Done."));
}

#[tokio::test(start_paused = true)]
async fn placeholders_that_were_filled_in_are_told_with_every_attempt() {
    let door = FakeApi::new();
    door.submit(1, json!({"name": "worker", "system_prompt": "Work on ${params.prompt}"}), None);
    let outfit = FakeResources::making(|job| {
        assert_eq!(job.first.run_id, job.run_id);
        let prompt = job.first.parameters["prompt"].as_str().unwrap();
        let blueprint =
            Blueprint { system_prompt: Some(format!("Work on {prompt}")), ..(*job.blueprint).clone() };
        // The first attempt is lost with its worker; the second one answers.
        let rung = if job.journal.len() == 1 { silent() } else { spoken(vec![json!({"text": "Yes."})]) };
        Ok(RunContext { blueprint: Arc::new(blueprint), ladder: vec![rung], ..job.context() })
    });
    let first = start(&door, outfit.clone(), 1);
    door.until("an attempt", |book| book.runs[&run(1)].events.len() == 2).await;
    first.go_home().await;
    let second = start(&door, outfit, 1);
    door.ended(1).await;
    second.go_home().await;
    let prompts: Vec<_> = door.book().runs[&run(1)]
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
async fn what_cannot_be_equipped_ends_as_a_typed_failure() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    let working = start(&door, FakeResources::making(|_| Err("there is no backend 'large'".to_owned())), 1);
    let ended = door.ended(1).await;
    working.go_home().await;
    assert_eq!(
        failure(&ended),
        (RunStatus::Failed, RunErrorType::ToolFailed, "there is no backend 'large'".to_owned())
    );
    assert_eq!(door.said("finish"), ["finish 1 tools_failed,run_completed"]);
    assert_eq!(door.said("release"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_to_stop_before_it_begins_is_not_begun() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    door.book().stopping.insert(run(1));
    let working = start(&door, FakeResources::silent(), 1);
    let ended = door.ended(1).await;
    working.go_home().await;
    assert_eq!(failure(&ended).1, RunErrorType::Stopped);
    assert_eq!(door.names(1), ["run_start", "stop_requested", "run_completed"]);
}

#[tokio::test(start_paused = true)]
async fn the_coordinators_time_counts_and_not_the_blueprints() {
    for (limit, left_ms) in [(3600, 2_000), (1, 90_000)] {
        let door = FakeApi::new();
        door.submit(1, json!({"name": "worker", "limits": {"timeout_seconds": limit}}), None);
        door.book().runs.get_mut(&run(1)).unwrap().time_left_ms = Some(left_ms);
        let began = Instant::now();
        let working = start(&door, FakeResources::silent(), 1);
        let ended = door.ended(1).await;
        let (took, left) = (began.elapsed(), Duration::from_millis(left_ms as u64));
        assert!(took >= left && took < left + Duration::from_secs(1), "{limit} s: {took:?}");
        working.go_home().await;
        assert_eq!(failure(&ended).1, RunErrorType::Timeout);
    }
}

#[tokio::test(start_paused = true)]
async fn time_that_is_up_already_ends_the_run_at_once() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    door.book().runs.get_mut(&run(1)).unwrap().time_left_ms = Some(-5);
    let working = start(&door, FakeResources::silent(), 1);
    let ended = door.ended(1).await;
    working.go_home().await;
    assert_eq!(failure(&ended).1, RunErrorType::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_the_coordinator_refuses_ends_the_run_as_a_typed_failure() {
    let door = FakeApi::new();
    let (agent, contract) = ager();
    door.submit(1, agent, Some(contract));
    door.fail("finish", Code::InvalidResult, false);
    let working =
        start(&door, FakeResources::ladder(|_| vec![spoken(vec![json!({"text": "{\"age\": 7}"})])]), 1);
    let ended = door.ended(1).await;
    working.go_home().await;
    let (status, kind, message) = failure(&ended);
    assert_eq!((status, kind), (RunStatus::Failed, RunErrorType::OutputSchemaValidationFailed));
    assert!(message.contains("finish fails"), "{message}");
    let EventBody::RunCompleted { salvage: Some(salvage), .. } = &ended else { panic!("{ended:?}") };
    assert_eq!(salvage.best_candidate, Some(json!({"age": 7})));
    // What was refused was not written: its number is used again, and none is left out.
    assert_eq!(door.said("finish"), ["finish 3 result,run_completed", "finish 3 run_completed"]);
    assert_eq!(door.said("release"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_breaks_is_answered_for_and_the_run_goes_on() {
    let door = FakeApi::new();
    door.submit(1, json!({"name": "worker", "tools": ["echo"]}), None);
    let working = start(
        &door,
        FakeResources::making(|job| {
            let call = json!({"id": "a", "name": "echo", "arguments": "{}"});
            let calls = json!({"tool_calls": [call], "stop": {"reason": "tool_calls"}});
            let ladder = vec![spoken(vec![calls, json!({"text": "It broke."})])];
            let tool = Played::new("echo", |_| async { panic!("the tool breaks") });
            Ok(with_tools(RunContext { ladder, ..job.context() }, &[tool]))
        }),
        1,
    );
    let ended = door.ended(1).await;
    working.go_home().await;
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Completed, .. }), "{ended:?}");
    let events = door.book().runs[&run(1)].events.clone();
    let error = events.iter().find_map(|event| match &event.body {
        EventBody::PostTool { error, .. } => error.clone(),
        _ => None,
    });
    assert!(error.is_some_and(|error| error.starts_with("the tool broke")), "{events:?}");
}

//! Attempts that fail on the worker.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use slipform_api::Code;
use slipform_testkit::elapse;
use slipform_types::{EventBody, RunErrorType, RunStatus};

use crate::support::fake_api::{FakeApi, run};
use crate::support::fakes::scripted_rung;
use crate::support::worker::{FakeResources, agent, panicking_rung, start};

#[tokio::test(start_paused = true)]
async fn panicking_backend_fails_the_attempt_and_not_the_worker() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    let panics = Arc::new(Mutex::new(VecDeque::from([(), ()])));
    let worker = start(&api, FakeResources::ladder(move |_| vec![panicking_rung(&panics)]), 1);
    let ended = api.ended(1).await;
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Completed, .. }), "{ended:?}");
    worker.shut_down().await;
    assert_eq!(api.calls("release"), [format!("release {}", run(1)), format!("release {}", run(1))]);
    let attempts = ["attempt_started"; 3];
    assert_eq!(api.names(1)[1..4], attempts);
}

#[tokio::test(start_paused = true)]
async fn run_with_an_invalid_journal_is_released_with_backoff() {
    for invalid in [json!({"event_type": "nonsense"}), json!([1])] {
        let api = FakeApi::new();
        api.submit(1, agent(), None);
        api.submit(2, agent(), None);
        api.state().runs.get_mut(&run(1)).unwrap().invalid_journal = Some(invalid);
        let worker = start(&api, FakeResources::echoing(), 2);
        // Other runs are driven at the same time.
        api.ended(2).await;
        elapse(Duration::from_secs(600)).await;
        let released = api.calls("release").len();
        assert!((20..=60).contains(&released), "{released}");
        // Heartbeats continue during the delay, so the lease does not expire.
        assert!(api.calls("heartbeat").len() > 300);
        worker.shut_down().await;
        assert_eq!(api.names(1), ["run_start"], "nothing is written");
    }
}

/// A run that no runner can drive is not retried forever.
#[tokio::test(start_paused = true)]
async fn run_with_an_invalid_journal_finally_fails() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    api.state().runs.get_mut(&run(1)).unwrap().invalid_journal = Some(json!({"event_type": "nonsense"}));
    let worker = start(&api, FakeResources::echoing(), 1);
    api.ended(1).await;
    worker.shut_down().await;
    assert_eq!(api.names(1), ["run_start", "run_completed"]);
}

#[tokio::test(start_paused = true)]
async fn run_with_an_unavailable_backend_is_released() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    let first = start(&api, FakeResources::silent(), 1);
    api.until("the attempt", |state| state.runs[&run(1)].events.len() == 2).await;
    first.shut_down().await;
    let second = start(
        &api,
        FakeResources::ladder(|_| {
            let mut rung = scripted_rung(vec![json!({"text": "Yes."})]);
            rung.tier.backend.name = "other".to_owned();
            vec![rung]
        }),
        1,
    );
    elapse(Duration::from_secs(300)).await;
    second.shut_down().await;
    // Another runner can continue: the run has not ended.
    assert!(api.calls("release").len() > 8);
    assert_eq!(api.names(1).last().unwrap(), "attempt_started");
    let third = start(&api, FakeResources::echoing(), 1);
    api.ended(1).await;
    third.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn run_whose_appends_are_rejected_ends_as_a_typed_failure() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    (0..5).for_each(|_| api.fail("append", Code::PayloadTooLarge, false));
    let worker = start(&api, FakeResources::echoing(), 1);
    let ended = api.ended(1).await;
    worker.shut_down().await;
    let EventBody::RunCompleted { error: Some(error), .. } = ended else { panic!("{ended:?}") };
    assert_eq!(error.kind, RunErrorType::ToolFailed);
    let message = "run failed 5 times; last error: request to the coordinator failed: append fails";
    assert_eq!(error.message, message);
    assert_eq!(api.calls("release").len(), 5);
}

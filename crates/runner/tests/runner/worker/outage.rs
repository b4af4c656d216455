//! Outages of the coordinator.

use slipform_api::Code;
use slipform_types::EventBody;

use crate::support::fake_api::{FakeApi, run};
use crate::support::worker::{FakeResources, agent, start};

const WHOLE: [&str; 5] = ["run_start", "attempt_started", "message", "result", "run_completed"];

#[tokio::test(start_paused = true)]
async fn retried_appends_keep_their_number_and_are_written_once() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    // A lost request, an overload, and a lost answer.
    api.fail("append", Code::Unavailable, false);
    api.fail("append", Code::RateLimited, false);
    api.fail("append", Code::Unavailable, true);
    api.fail("finish", Code::Unavailable, true);
    let worker = start(&api, FakeResources::echoing(), 1);
    api.ended(1).await;
    api.until("a repeated finish", |state| {
        state.calls.iter().filter(|call| call.starts_with("finish")).count() == 2
    })
    .await;
    worker.shut_down().await;
    assert_eq!(api.names(1), WHOLE);
    let first = "append 1 attempt_started";
    assert_eq!(api.calls("append"), [first, first, first, first, "append 2 message"]);
    assert_eq!(api.calls("finish"), ["finish 3 result,run_completed"; 2]);
}

#[tokio::test(start_paused = true)]
async fn outage_of_minutes_only_delays_the_run() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    for _ in 0..100 {
        api.fail("append", Code::Unavailable, false);
    }
    let began = tokio::time::Instant::now();
    let worker = start(&api, FakeResources::echoing(), 1);
    api.ended(1).await;
    let minutes = began.elapsed().as_secs() / 60;
    assert!((3..15).contains(&minutes), "{minutes} minutes: delays grow up to their limit");
    worker.shut_down().await;
    assert_eq!(api.names(1), WHOLE);
}

#[tokio::test(start_paused = true)]
async fn long_outage_ends_the_attempt_and_not_the_worker() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    let worker = start(&api, FakeResources::echoing(), 1);
    for _ in 0..400 {
        api.fail("append", Code::Unavailable, false);
    }
    api.until("a release", |state| state.calls.iter().any(|call| call.starts_with("release"))).await;
    assert_eq!(api.names(1), ["run_start"]);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn stale_attempt_appends_nothing() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    api.fail("append", Code::StaleAttempt, false);
    let worker = start(&api, FakeResources::echoing(), 1);
    api.until("a rejected append", |state| state.calls.iter().any(|call| call.starts_with("append"))).await;
    api.submit(2, agent(), None);
    let ended = api.ended(2).await;
    assert!(matches!(ended, EventBody::RunCompleted { error: None, .. }), "{ended:?}");
    worker.shut_down().await;
    assert_eq!(api.names(1), ["run_start"]);
    assert_eq!(api.calls("release"), [""; 0], "a stale attempt is not released");
    assert_eq!(api.state().runs[&run(1)].number, 0);
}

//! Slots and claims of a worker.

use std::time::Duration;

use slipform_runner::Worker;
use slipform_testkit::elapse;

use crate::support::fake_api::{FakeApi, run};
use crate::support::worker::{FakeResources, agent, options, start};

#[tokio::test(start_paused = true)]
async fn worker_claims_no_more_runs_than_it_has_slots() {
    let api = FakeApi::new();
    for number in 1..=3 {
        api.submit(number, agent(), None);
    }
    let worker = start(&api, FakeResources::silent(), 2);
    let begun = |numbers: &'static [u8]| {
        move |state: &crate::support::fake_api::State| {
            numbers.iter().all(|number| state.runs[&run(*number)].events.len() >= 2)
        }
    };
    api.until("two attempts", begun(&[1, 2])).await;
    elapse(Duration::from_secs(60)).await;
    assert_eq!(api.calls("claim"), ["claim 2"], "a full worker does not claim");
    assert_eq!(api.names(3), ["run_start"]);
    api.state().stopping.insert(run(1));
    api.ended(1).await;
    api.until("the third attempt", begun(&[3])).await;
    assert_eq!(api.calls("claim"), ["claim 2", "claim 1"]);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn claims_are_long_polls() {
    let api = FakeApi::new();
    let worker = start(&api, FakeResources::echoing(), 4);
    elapse(Duration::from_secs(60)).await;
    let claims = api.calls("claim").len();
    // The long poll of the options takes two seconds.
    assert!((29..=31).contains(&claims), "{claims}");
    api.submit(1, agent(), None);
    let asked = tokio::time::Instant::now();
    api.ended(1).await;
    assert_eq!(asked.elapsed(), Duration::ZERO, "a queued run is assigned at once");
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn claims_have_a_minimum_interval() {
    let api = FakeApi::new();
    let options = slipform_runner::WorkerOptions { claim_wait: Duration::ZERO, ..options(1) };
    let worker = Worker::new(api.clone(), FakeResources::echoing(), std::sync::Arc::new(()), options);
    worker.run(elapse(Duration::from_secs(10))).await.unwrap();
    let claims = api.calls("claim").len();
    assert!((90..=102).contains(&claims), "{claims}");
}

#[tokio::test(start_paused = true)]
async fn failed_claims_are_retried_with_backoff() {
    let api = FakeApi::new();
    (0..1000).for_each(|_| api.fail("claim", slipform_api::Code::Internal, false));
    let worker = start(&api, FakeResources::echoing(), 1);
    elapse(Duration::from_secs(60)).await;
    let claims = api.calls("claim").len();
    assert!((12..=40).contains(&claims), "{claims}");
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn assignment_beyond_the_slots_is_released() {
    let api = FakeApi::new();
    api.state().ignores_slots = true;
    api.submit(1, agent(), None);
    api.submit(2, agent(), None);
    let worker = start(&api, FakeResources::silent(), 1);
    api.until("a release", |state| state.calls.iter().any(|call| call.starts_with("release"))).await;
    assert_eq!(api.calls("release"), [format!("release {}", run(2))]);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn number_of_attempts_can_be_watched() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    let worker = Worker::new(api.clone(), FakeResources::echoing(), std::sync::Arc::new(()), options(1));
    let mut attempts = worker.attempts();
    let until_idle = async move {
        attempts.wait_for(|count| *count == 1).await.unwrap();
        attempts.wait_for(|count| *count == 0).await.unwrap();
    };
    worker.run(until_idle).await.unwrap();
    assert_eq!(api.names(1).last().unwrap(), "run_completed");
}

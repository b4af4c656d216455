//! Heartbeats, and the effects of their answers.

use std::time::Duration;

use slipform_api::Code;
use slipform_testkit::elapse;
use slipform_types::{EventBody, RunStatus};

use crate::support::fake_api::{FakeApi, State, run};
use crate::support::worker::{FakeResources, agent, start};

fn is_begun(number: u8) -> impl Fn(&State) -> bool {
    move |state| state.runs[&run(number)].events.len() == 2
}

#[tokio::test(start_paused = true)]
async fn heartbeats_are_sent_every_second_while_runs_are_active() {
    let api = FakeApi::new();
    let worker = start(&api, FakeResources::silent(), 2);
    elapse(Duration::from_secs(10)).await;
    assert_eq!(api.calls("heartbeat"), [""; 0]);
    api.submit(1, agent(), None);
    api.submit(2, agent(), None);
    api.until("both attempts", |state| is_begun(1)(state) && is_begun(2)(state)).await;
    elapse(Duration::from_secs(10)).await;
    let heartbeat_times = api.state().heartbeat_times.clone();
    assert!(heartbeat_times.len() >= 10, "{}", heartbeat_times.len());
    assert!(
        heartbeat_times.windows(2).all(|pair| pair[1] - pair[0] <= Duration::from_secs(1)),
        "{heartbeat_times:?}"
    );
    assert_eq!(api.calls("heartbeat").last().unwrap(), "heartbeat 2", "one heartbeat for all attempts");
    api.state().stopping.extend([run(1), run(2)]);
    api.ended(1).await;
    api.ended(2).await;
    elapse(Duration::from_secs(1)).await;
    let count = api.calls("heartbeat").len();
    elapse(Duration::from_secs(10)).await;
    assert_eq!(api.calls("heartbeat").len(), count);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn run_is_stopped_by_the_next_heartbeat() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    let worker = start(&api, FakeResources::silent(), 1);
    api.until("the attempt", is_begun(1)).await;
    api.state().stopping.insert(run(1));
    let asked = tokio::time::Instant::now();
    let ended = api.ended(1).await;
    assert!(asked.elapsed() <= Duration::from_secs(1), "{:?}", asked.elapsed());
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Stopped, .. }), "{ended:?}");
    worker.shut_down().await;
    assert_eq!(api.names(1), ["run_start", "attempt_started", "stop_requested", "run_completed"]);
}

#[tokio::test(start_paused = true)]
async fn run_is_stopped_by_the_answer_to_an_append() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    let stopper = api.clone();
    // The stop is requested after the claim and before the first append.
    let resources = FakeResources::ladder(move |_| {
        stopper.state().stopping.insert(run(1));
        vec![crate::support::fakes::silent_rung()]
    });
    let worker = start(&api, resources, 1);
    for _ in 0..100 {
        api.fail("heartbeat", Code::Unavailable, false);
    }
    let ended = api.ended(1).await;
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Stopped, .. }), "{ended:?}");
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn attempt_with_an_expired_lease_ends_without_appending() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    let worker = start(&api, FakeResources::silent(), 1);
    api.until("the attempt", is_begun(1)).await;
    // The lease has expired, and another attempt owns the run.
    api.state().runs.get_mut(&run(1)).unwrap().token += 1;
    api.submit(2, agent(), None);
    api.until("the attempt in the free slot", is_begun(2)).await;
    worker.shut_down().await;
    assert_eq!(api.names(1), ["run_start", "attempt_started"]);
    assert_eq!(api.calls("release"), [format!("release {}", run(2))], "only the attempt that it still owns");
}

//! What breaks, and what cannot be worked on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use slipform_api::Code;
use slipform_types::{EventBody, RunErrorType, RunStatus};

use crate::support::fake_api::{FakeApi, run};
use crate::support::parts::spoken;
use crate::support::worker::{FakeResources, agent, breaking, start};

#[tokio::test(start_paused = true)]
async fn a_backend_that_breaks_costs_an_attempt_and_not_the_worker() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    let breaks = Arc::new(Mutex::new(VecDeque::from([(), ()])));
    let working = start(&door, FakeResources::ladder(move |_| vec![breaking(&breaks)]), 1);
    let ended = door.ended(1).await;
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Completed, .. }), "{ended:?}");
    working.go_home().await;
    assert_eq!(door.said("release"), [format!("release {}", run(1)), format!("release {}", run(1))]);
    let attempts = ["attempt_started"; 3];
    assert_eq!(door.names(1)[1..4], attempts);
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_cannot_be_read_is_given_back_in_growing_intervals() {
    for spoilt in [json!({"event_type": "nonsense"}), json!([1])] {
        let door = FakeApi::new();
        door.submit(1, agent(), None);
        door.submit(2, agent(), None);
        door.book().runs.get_mut(&run(1)).unwrap().spoilt = Some(spoilt);
        let working = start(&door, FakeResources::answering(), 2);
        // Others are worked on meanwhile.
        door.ended(2).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let released = door.said("release").len();
        assert!((20..=60).contains(&released), "{released}");
        // While it is kept, it is kept alive: nobody counts it as lost.
        assert!(door.said("heartbeat").len() > 300);
        working.go_home().await;
        assert_eq!(door.names(1), ["run_start"], "nothing is written");
    }
}

/// A run that nobody can work on does not go round for ever.
#[tokio::test(start_paused = true)]
async fn a_journal_that_nobody_can_read_ends_as_a_failure() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    door.book().runs.get_mut(&run(1)).unwrap().spoilt = Some(json!({"event_type": "nonsense"}));
    let working = start(&door, FakeResources::answering(), 1);
    door.ended(1).await;
    working.go_home().await;
    assert_eq!(door.names(1), ["run_start", "run_completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_backend_that_this_worker_does_not_have_is_given_back() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    let first = start(&door, FakeResources::silent(), 1);
    door.until("it begins", |book| book.runs[&run(1)].events.len() == 2).await;
    first.go_home().await;
    let second = start(
        &door,
        FakeResources::ladder(|_| {
            let mut rung = spoken(vec![json!({"text": "Yes."})]);
            rung.tier.backend.name = "other".to_owned();
            vec![rung]
        }),
        1,
    );
    tokio::time::sleep(Duration::from_secs(300)).await;
    second.go_home().await;
    // Whoever has it can go on: the run has not ended.
    assert!(door.said("release").len() > 8);
    assert_eq!(door.names(1).last().unwrap(), "attempt_started");
    let third = start(&door, FakeResources::answering(), 1);
    door.ended(1).await;
    third.go_home().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_says_what_the_coordinator_does_not_take_ends_as_a_typed_failure() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    (0..5).for_each(|_| door.fail("append", Code::PayloadTooLarge, false));
    let working = start(&door, FakeResources::answering(), 1);
    let ended = door.ended(1).await;
    working.go_home().await;
    let EventBody::RunCompleted { error: Some(error), .. } = ended else { panic!("{ended:?}") };
    assert_eq!(error.kind, RunErrorType::ToolFailed);
    let message =
        "the run broke off 5 times, the last time because: the coordinator does not take it: append fails";
    assert_eq!(error.message, message);
    assert_eq!(door.said("release").len(), 5);
}

//! A coordinator that is away for a while, or for too long.

use slipform_api::Code;
use slipform_types::EventBody;

use crate::support::fake_api::{FakeApi, run};
use crate::support::worker::{FakeResources, agent, start};

const WHOLE: [&str; 5] = ["run_start", "attempt_started", "message", "result", "run_completed"];

#[tokio::test(start_paused = true)]
async fn what_happened_is_said_again_under_its_number_and_written_once() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    // Not heard at all, overloaded, heard with the answer lost.
    door.fail("append", Code::Unavailable, false);
    door.fail("append", Code::RateLimited, false);
    door.fail("append", Code::Unavailable, true);
    door.fail("finish", Code::Unavailable, true);
    let working = start(&door, FakeResources::answering(), 1);
    door.ended(1).await;
    door.until("the end said twice", |book| {
        book.said.iter().filter(|said| said.starts_with("finish")).count() == 2
    })
    .await;
    working.go_home().await;
    assert_eq!(door.names(1), WHOLE);
    let first = "append 1 attempt_started";
    assert_eq!(door.said("append"), [first, first, first, first, "append 2 message"]);
    assert_eq!(door.said("finish"), ["finish 3 result,run_completed"; 2]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_minutes_costs_nothing_but_time() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    for _ in 0..100 {
        door.fail("append", Code::Unavailable, false);
    }
    let began = tokio::time::Instant::now();
    let working = start(&door, FakeResources::answering(), 1);
    door.ended(1).await;
    let minutes = began.elapsed().as_secs() / 60;
    assert!((3..15).contains(&minutes), "{minutes} minutes: waits grow up to their bound");
    working.go_home().await;
    assert_eq!(door.names(1), WHOLE);
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_stays_away_is_given_up_and_the_worker_lives() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    let working = start(&door, FakeResources::answering(), 1);
    for _ in 0..400 {
        door.fail("append", Code::Unavailable, false);
    }
    door.until("the run is given back", |book| book.said.iter().any(|said| said.starts_with("release")))
        .await;
    assert_eq!(door.names(1), ["run_start"]);
    working.go_home().await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_somebody_elses_by_now_says_nothing_more() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    door.fail("append", Code::StaleAttempt, false);
    let working = start(&door, FakeResources::answering(), 1);
    door.until("it was told", |book| book.said.iter().any(|said| said.starts_with("append"))).await;
    door.submit(2, agent(), None);
    let ended = door.ended(2).await;
    assert!(matches!(ended, EventBody::RunCompleted { error: None, .. }), "{ended:?}");
    working.go_home().await;
    assert_eq!(door.names(1), ["run_start"]);
    assert_eq!(door.said("release"), [""; 0], "there is nothing to give back");
    assert_eq!(door.book().runs[&run(1)].number, 0);
}

//! How much a worker takes on.

use std::time::Duration;

use slipform_runner::Worker;

use crate::support::fake_api::{FakeApi, run};
use crate::support::worker::{FakeResources, agent, options, start};

#[tokio::test(start_paused = true)]
async fn no_more_is_taken_on_than_there_are_slots() {
    let door = FakeApi::new();
    for number in 1..=3 {
        door.submit(number, agent(), None);
    }
    let working = start(&door, FakeResources::silent(), 2);
    let begun = |numbers: &'static [u8]| {
        move |book: &crate::support::fake_api::Book| {
            numbers.iter().all(|number| book.runs[&run(*number)].events.len() >= 2)
        }
    };
    door.until("two begin", begun(&[1, 2])).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(door.said("claim"), ["claim 2"], "nobody asks who has no room");
    assert_eq!(door.names(3), ["run_start"]);
    door.book().stopping.insert(run(1));
    door.ended(1).await;
    door.until("the third begins", begun(&[3])).await;
    assert_eq!(door.said("claim"), ["claim 2", "claim 1"]);
    working.go_home().await;
}

#[tokio::test(start_paused = true)]
async fn work_is_waited_for_in_long_questions() {
    let door = FakeApi::new();
    let working = start(&door, FakeResources::answering(), 4);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let questions = door.said("claim").len();
    // Two seconds each, as the options say.
    assert!((29..=31).contains(&questions), "{questions}");
    door.submit(1, agent(), None);
    let asked = tokio::time::Instant::now();
    door.ended(1).await;
    assert_eq!(asked.elapsed(), Duration::ZERO, "work that comes is given at once");
    working.go_home().await;
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_does_not_wait_is_not_hammered() {
    let door = FakeApi::new();
    let options = slipform_runner::WorkerOptions { claim_wait: Duration::ZERO, ..options(1) };
    let worker = Worker::new(door.clone(), FakeResources::answering(), std::sync::Arc::new(()), options);
    worker.run(tokio::time::sleep(Duration::from_secs(10))).await.unwrap();
    let questions = door.said("claim").len();
    assert!((90..=102).contains(&questions), "{questions}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_fails_is_asked_for_again_in_growing_intervals() {
    let door = FakeApi::new();
    (0..1000).for_each(|_| door.fail("claim", slipform_api::Code::Internal, false));
    let working = start(&door, FakeResources::answering(), 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let questions = door.said("claim").len();
    assert!((12..=40).contains(&questions), "{questions}");
    working.go_home().await;
}

#[tokio::test(start_paused = true)]
async fn work_that_was_not_asked_for_is_given_back() {
    let door = FakeApi::new();
    door.book().is_generous = true;
    door.submit(1, agent(), None);
    door.submit(2, agent(), None);
    let working = start(&door, FakeResources::silent(), 1);
    door.until("one is given back", |book| book.said.iter().any(|said| said.starts_with("release"))).await;
    assert_eq!(door.said("release"), [format!("release {}", run(2))]);
    working.go_home().await;
}

#[tokio::test(start_paused = true)]
async fn how_many_attempts_there_are_can_be_watched() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    let worker = Worker::new(door.clone(), FakeResources::answering(), std::sync::Arc::new(()), options(1));
    let mut attempts = worker.attempts();
    let until_idle = async move {
        attempts.wait_for(|count| *count == 1).await.unwrap();
        attempts.wait_for(|count| *count == 0).await.unwrap();
    };
    worker.run(until_idle).await.unwrap();
    assert_eq!(door.names(1).last().unwrap(), "run_completed");
}

//! Signs of life, and what the answers to them do.

use std::time::Duration;

use slipform_api::Code;
use slipform_types::{EventBody, RunStatus};

use crate::support::fake_api::{Book, FakeApi, run};
use crate::support::worker::{FakeResources, agent, start};

fn is_begun(number: u8) -> impl Fn(&Book) -> bool {
    move |book| book.runs[&run(number)].events.len() == 2
}

#[tokio::test(start_paused = true)]
async fn whoever_works_is_heard_of_every_second_and_whoever_does_not_is_not() {
    let door = FakeApi::new();
    let working = start(&door, FakeResources::silent(), 2);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(door.said("heartbeat"), [""; 0]);
    door.submit(1, agent(), None);
    door.submit(2, agent(), None);
    door.until("both begin", |book| is_begun(1)(book) && is_begun(2)(book)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let beats = door.book().beats.clone();
    assert!(beats.len() >= 10, "{}", beats.len());
    assert!(beats.windows(2).all(|pair| pair[1] - pair[0] <= Duration::from_secs(1)), "{beats:?}");
    assert_eq!(door.said("heartbeat").last().unwrap(), "heartbeat 2", "one for all");
    door.book().stopping.extend([run(1), run(2)]);
    door.ended(1).await;
    door.ended(2).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let count = door.said("heartbeat").len();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(door.said("heartbeat").len(), count);
    working.go_home().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_is_stopped_by_the_next_heartbeat() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    let working = start(&door, FakeResources::silent(), 1);
    door.until("it begins", is_begun(1)).await;
    door.book().stopping.insert(run(1));
    let asked = tokio::time::Instant::now();
    let ended = door.ended(1).await;
    assert!(asked.elapsed() <= Duration::from_secs(1), "{:?}", asked.elapsed());
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Stopped, .. }), "{ended:?}");
    working.go_home().await;
    assert_eq!(door.names(1), ["run_start", "attempt_started", "stop_requested", "run_completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_stopped_by_the_answer_to_what_it_says() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    let stopper = door.clone();
    // The stop comes after the claim and before the first words.
    let outfit = FakeResources::ladder(move |_| {
        stopper.book().stopping.insert(run(1));
        vec![crate::support::parts::silent()]
    });
    let working = start(&door, outfit, 1);
    for _ in 0..100 {
        door.fail("heartbeat", Code::Unavailable, false);
    }
    let ended = door.ended(1).await;
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Stopped, .. }), "{ended:?}");
    working.go_home().await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_lost_ends_at_once_and_writes_nothing() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    let working = start(&door, FakeResources::silent(), 1);
    door.until("it begins", is_begun(1)).await;
    // Its lease has expired, and somebody else has it.
    door.book().runs.get_mut(&run(1)).unwrap().token += 1;
    door.submit(2, agent(), None);
    door.until("the slot is free", is_begun(2)).await;
    working.go_home().await;
    assert_eq!(door.names(1), ["run_start", "attempt_started"]);
    assert_eq!(door.said("release"), [format!("release {}", run(2))], "only what it still had");
}

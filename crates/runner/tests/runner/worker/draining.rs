//! Going home.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use slipform_api::Code;
use slipform_runner::RunContext;
use tokio::time::Instant;

use crate::support::fake_api::{FakeApi, run};
use crate::support::folder::Folder;
use crate::support::worker::{FakeResources, agent, start};

#[tokio::test(start_paused = true)]
async fn what_is_held_is_given_back_and_nothing_is_written_afterwards() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    door.submit(2, agent(), None);
    let working = start(&door, FakeResources::silent(), 3);
    door.until("both begin", |book| book.runs.values().all(|kept| kept.events.len() == 2)).await;
    // The coordinator stumbles, and is asked again.
    door.fail("release", Code::Unavailable, false);
    let began = Instant::now();
    working.go_home().await;
    assert!(began.elapsed() <= Duration::from_secs(5), "{:?}", began.elapsed());
    let mut released = door.said("release");
    released.sort();
    released.dedup();
    assert_eq!(released, [format!("release {}", run(1)), format!("release {}", run(2))]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(door.names(1), ["run_start", "attempt_started"]);
    assert!(!door.book().said.iter().any(|said| said.starts_with("finish")));
}

#[tokio::test(start_paused = true)]
async fn work_that_comes_while_it_goes_home_is_given_back() {
    let door = FakeApi::new();
    let working = start(&door, FakeResources::silent(), 1);
    door.until("it asks", |book| book.said.iter().any(|said| said == "claim 1")).await;
    let late = door.clone();
    let arriving = async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        late.submit(1, agent(), None);
    };
    let ((), ()) = tokio::join!(working.go_home(), arriving);
    assert_eq!(door.said("release"), [format!("release {}", run(1))]);
    assert_eq!(door.names(1), ["run_start"]);
    assert_eq!(door.said("claim").len(), 1, "none is asked for any more");
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_is_away_does_not_keep_a_worker_from_going_home() {
    let door = FakeApi::new();
    door.submit(1, agent(), None);
    let working = start(&door, FakeResources::silent(), 2);
    door.until("it begins", |book| book.runs[&run(1)].events.len() == 2).await;
    for verb in ["release", "claim", "register", "heartbeat"] {
        (0..200).for_each(|_| door.fail(verb, Code::Unavailable, false));
    }
    let began = Instant::now();
    working.go_home().await;
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn the_programs_of_an_attempt_end_with_it() {
    let folder = Folder::new("draining");
    let script = "echo $$ > pid.new; mv pid.new pid; sleep 600";
    let door = FakeApi::new();
    door.submit(1, json!({"name": "slow", "type": "procedural", "command": ["sh", "-c", script]}), None);
    let path = folder.path();
    let working = start(
        &door,
        FakeResources::making(move |job| Ok(RunContext { project_dir: path.clone(), ..job.context() })),
        1,
    );
    let file = Arc::new(std::path::PathBuf::from(folder.path()).join("pid"));
    while !file.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let pid = folder.read("pid").trim().to_owned();
    working.go_home().await;
    // A process that was killed is a zombie until it is waited for.
    let is_alive = || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    let gone = async {
        while is_alive() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("the program ends");
    assert_eq!(door.said("release").len(), 1);
}

//! Shutdown of a worker.

use std::time::Duration;

use serde_json::json;
use slipform_api::Code;
use slipform_runner::Resources;
use slipform_testkit::{elapse, wait_until_async};
use tokio::time::Instant;

use crate::support::contexts::resources;
use crate::support::fake_api::{FakeApi, run};
use crate::support::folder::Folder;
use crate::support::worker::{FakeResources, agent, start};

#[tokio::test(start_paused = true)]
async fn shutdown_releases_all_runs_and_appends_nothing() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    api.submit(2, agent(), None);
    let worker = start(&api, FakeResources::silent(), 3);
    api.until("both attempts", |state| state.runs.values().all(|run_state| run_state.events.len() == 2))
        .await;
    // The first release fails and is retried.
    api.fail("release", Code::Unavailable, false);
    let began = Instant::now();
    worker.shut_down().await;
    assert!(began.elapsed() <= Duration::from_secs(5), "{:?}", began.elapsed());
    let mut released = api.calls("release");
    released.sort();
    released.dedup();
    assert_eq!(released, [format!("release {}", run(1)), format!("release {}", run(2))]);
    elapse(Duration::from_secs(60)).await;
    assert_eq!(api.names(1), ["run_start", "attempt_started"]);
    assert!(!api.state().calls.iter().any(|call| call.starts_with("finish")));
}

#[tokio::test(start_paused = true)]
async fn assignment_that_arrives_during_shutdown_is_released() {
    let api = FakeApi::new();
    let worker = start(&api, FakeResources::silent(), 1);
    api.until("a claim", |state| state.calls.iter().any(|call| call == "claim 1")).await;
    let late = api.clone();
    let arriving = async move {
        elapse(Duration::from_millis(500)).await;
        late.submit(1, agent(), None);
    };
    let ((), ()) = tokio::join!(worker.shut_down(), arriving);
    assert_eq!(api.calls("release"), [format!("release {}", run(1))]);
    assert_eq!(api.names(1), ["run_start"]);
    assert_eq!(api.calls("claim").len(), 1, "no further claim is made");
}

#[tokio::test(start_paused = true)]
async fn shutdown_is_bounded_while_the_coordinator_is_unreachable() {
    let api = FakeApi::new();
    api.submit(1, agent(), None);
    let worker = start(&api, FakeResources::silent(), 2);
    api.until("the attempt", |state| state.runs[&run(1)].events.len() == 2).await;
    for operation in ["release", "claim", "register", "heartbeat"] {
        (0..200).for_each(|_| api.fail(operation, Code::Unavailable, false));
    }
    let began = Instant::now();
    worker.shut_down().await;
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn shutdown_kills_the_programs_of_an_attempt() {
    let folder = Folder::with("draining", &[("out/notes", "")]);
    let script = "echo $$ > out/pid.new; mv out/pid.new out/pid; sleep 600";
    let api = FakeApi::new();
    api.submit(1, json!({"name": "slow", "type": "procedural", "command": ["sh", "-c", script]}), None);
    let path = folder.path();
    let worker = start(
        &api,
        FakeResources::with(move |assignment| {
            Ok(Resources { project_dir: path.clone(), ..resources(assignment) })
        }),
        1,
    );
    let file = std::path::PathBuf::from(folder.path()).join("out/pid");
    wait_until_async("the program writes its process id", async || file.exists()).await;
    let pid = folder.read("out/pid").trim().to_owned();
    worker.shut_down().await;
    // A killed process is a zombie until its parent waits for it.
    let is_alive = || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    wait_until_async("the program ends", async || !is_alive()).await;
    assert_eq!(api.calls("release").len(), 1);
}

//! Runs that wait for their children.

use slipform_store::Parked;
use slipform_types::{EventBody, ExecutionMode, RunStatus};

use crate::world::{LONG, World, body, child, message, success};

const SYNC: ExecutionMode = ExecutionMode::Sync;

pub(crate) async fn a_parked_run_goes_on_when_its_child_ends(world: &World) {
    let submitted = world.submit("writer").await;
    let parent = world.claim().await;
    let started = world.delegate(&parent, "reader", SYNC).await;
    assert_eq!(world.store.park(parent.fence.clone()).await.unwrap(), Ok(Parked::Waiting));
    assert_eq!(world.status(&submitted.run_id).await, RunStatus::Waiting);
    world.complete_next("read").await;
    assert_eq!(world.status(&submitted.run_id).await, RunStatus::Pending);
    let journal = world.journal(&submitted.session_id).await;
    let told = body(&journal[1]);
    assert_eq!(told["event_type"], "child_completed");
    assert_eq!(told["child_run_id"], started.run_id.as_str());
    assert_eq!((&told["status"], &told["result_text"]), (&"completed".into(), &"read".into()));
    let again = world.claim().await;
    assert_eq!((again.fence.token, again.journal.len()), (2, 2));
    assert_eq!(world.store.park(again.fence).await.unwrap(), Ok(Parked::Waiting), "it is told once");
}

pub(crate) async fn a_child_may_end_before_its_parent_parks(world: &World) {
    let submitted = world.submit("writer").await;
    let parent = world.claim().await;
    for agent in ["reader", "counter"] {
        world.delegate(&parent, agent, SYNC).await;
        world.complete_next(agent).await;
    }
    assert_eq!(world.kinds(&submitted.session_id).await, ["run_start"]);
    assert_eq!(world.store.park(parent.fence).await.unwrap(), Ok(Parked::Available));
    let journal = world.journal(&submitted.session_id).await;
    let told: Vec<_> = journal[1..].iter().map(|event| body(event)["result_text"].clone()).collect();
    assert_eq!(told, ["reader", "counter"]);
}

pub(crate) async fn a_run_that_is_worked_on_hears_when_it_parks(world: &World) {
    let submitted = world.submit("writer").await;
    let first = world.claim().await;
    world.delegate(&first, "reader", SYNC).await;
    world.store.release(first.fence).await.unwrap().unwrap();
    let runs = world.claim_as("runner", 2, LONG).await;
    let find = |id: &slipform_types::RunId, is_same: bool| {
        runs.iter().find(|claim| (claim.fence.run_id == *id) == is_same).unwrap().fence.clone()
    };
    let (parent, reader) = (find(&submitted.run_id, true), find(&submitted.run_id, false));
    world.finish(&reader, 1, success("read")).await.unwrap();
    world.append(&parent, 1, vec![message("meanwhile")]).await.unwrap();
    assert_eq!(world.store.park(parent).await.unwrap(), Ok(Parked::Available));
    assert_eq!(world.kinds(&submitted.session_id).await, ["run_start", "message", "child_completed"]);
}

pub(crate) async fn parking_and_ending_at_once_lose_nothing(world: &World) {
    for round in 0..30 {
        let submitted = world.submit("writer").await;
        let parent = world.claim().await;
        let mut children = Vec::new();
        for call in ["one", "two"] {
            world.store.submit(child(&parent, "reader", call, SYNC)).await.unwrap().unwrap();
            children.push(world.claim().await.fence);
        }
        let (one, two, parked) = tokio::join!(
            world.finish(&children[0], 1, success("one")),
            world.finish(&children[1], 1, success("two")),
            world.store.park(parent.fence.clone()),
        );
        assert!(one.is_ok() && two.is_ok() && parked.unwrap().is_ok(), "round {round}");
        // It is there again, and hears of both before it would wait for ever.
        let again = world.claim().await;
        assert_eq!(again.fence.run_id, submitted.run_id);
        let mut told = again.journal.iter().filter(|event| event.body.contains("child_completed")).count();
        if told < 2 {
            assert_eq!(world.store.park(again.fence).await.unwrap(), Ok(Parked::Available));
            let last = world.claim().await;
            told = last.journal.iter().filter(|event| event.body.contains("child_completed")).count();
        }
        assert_eq!(told, 2, "round {round}");
    }
}

pub(crate) async fn a_released_run_is_no_lost_attempt(world: &World) {
    let submitted = world.submit("writer").await;
    for attempt in 1..=5 {
        let claimed = world.claim().await;
        assert_eq!(claimed.fence.token, attempt);
        world.append(&claimed.fence, 1, vec![message("kept")]).await.unwrap();
        world.store.release(claimed.fence).await.unwrap().unwrap();
    }
    let run = world.run(&submitted.run_id).await;
    assert_eq!((run.status, run.attempts), (RunStatus::Pending, 5));
    assert_eq!(world.journal(&submitted.session_id).await.len(), 6);
}

pub(crate) async fn a_stopping_run_does_not_wait(world: &World) {
    let submitted = world.submit("writer").await;
    let parent = world.claim().await;
    world.delegate(&parent, "reader", ExecutionMode::AsyncPoll).await;
    world.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(world.store.park(parent.fence).await.unwrap(), Ok(Parked::Available));
    assert_eq!(world.status(&submitted.run_id).await, RunStatus::Stopping);
    let runs = world.claim_as("runner", 2, LONG).await;
    let claimed = runs.iter().find(|claim| claim.fence.run_id == submitted.run_id).unwrap();
    assert!(claimed.stop);
    let end = vec![EventBody::RunCompleted {
        status: RunStatus::Stopped,
        error: None,
        salvage: None,
        receipt: None,
    }];
    world.finish(&claimed.fence, 1, end).await.unwrap();
    assert_eq!(world.status(&submitted.run_id).await, RunStatus::Stopped);
}

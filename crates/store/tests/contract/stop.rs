//! Stopping runs, however they stand.

use slipform_store::{Parked, Stale};
use slipform_types::{ExecutionMode, RunStatus};

use crate::world::{LONG, World, body, child, family_refusal, follow_up, message, new_run, success};

pub(crate) async fn a_run_that_nobody_claimed_ends_at_once(world: &World) {
    let submitted = world.submit("writer").await;
    let stopped = world.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(stopped.status, RunStatus::Stopped);
    let error = stopped.error.unwrap();
    assert_eq!((&error["type"], &error["message"]), (&"stopped".into(), &"the run was stopped".into()));
    assert_eq!(world.kinds(&submitted.session_id).await, ["run_start", "stop_requested", "run_completed"]);
    assert!(world.claim_as("runner", 10, LONG).await.is_empty());
    let next = world.store.submit(follow_up("writer", &submitted.session_id, false)).await.unwrap();
    assert!(next.is_ok(), "the session is free");
}

pub(crate) async fn a_queued_run_ends_without_a_word_in_anothers_journal(world: &World) {
    let submitted = world.submit("writer").await;
    let session = &submitted.session_id;
    let claimed = world.claim().await;
    let queued = world.store.submit(follow_up("writer", session, true)).await.unwrap().unwrap();
    let third = world.store.submit(follow_up("writer", session, true)).await.unwrap().unwrap();
    let stopped = world.store.stop(&queued.run_id).await.unwrap().unwrap();
    assert_eq!(stopped.status, RunStatus::Stopped);
    assert!(stopped.finished_at.is_some());
    assert_eq!(world.kinds(session).await, ["run_start"], "the journal is that of the run that works");
    world.finish(&claimed.fence, 1, success("done")).await.unwrap();
    let expected =
        ["run_start", "result", "run_completed", "run_start", "stop_requested", "run_completed", "run_start"];
    assert_eq!(world.kinds(session).await, expected);
    assert_eq!(world.status(&queued.run_id).await, RunStatus::Stopped);
    assert_eq!(world.claim().await.fence.run_id, third.run_id);
}

pub(crate) async fn a_run_that_is_worked_on_is_told(world: &World) {
    let submitted = world.submit("writer").await;
    let fence = world.claim().await.fence;
    let stopping = world.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(stopping.status, RunStatus::Stopping);
    assert!(world.append(&fence, 1, vec![message("partial")]).await.unwrap().stop);
    assert_eq!(world.status(&submitted.run_id).await, RunStatus::Stopping);
    assert!(world.store.stop(&submitted.run_id).await.unwrap().is_some(), "it may be asked twice");
    assert!(world.claim_as("other", 10, LONG).await.is_empty());
    world.finish(&fence, 2, success("it was done already")).await.unwrap();
    assert_eq!(world.status(&submitted.run_id).await, RunStatus::Completed);
    assert!(world.store.stop(&new_run()).await.unwrap().is_none());
}

pub(crate) async fn a_waiting_run_is_stopped_with_its_child(world: &World) {
    let submitted = world.submit("writer").await;
    let parent = world.claim().await;
    let waited = world.delegate(&parent, "reader", ExecutionMode::Sync).await;
    let new = child(&parent, "counter", "free", ExecutionMode::AsyncPoll);
    let free = world.store.submit(new).await.unwrap().unwrap();
    let reader = world.claim().await;
    let grandchild = world.delegate(&reader, "looker", ExecutionMode::Sync).await;
    assert_eq!(world.store.park(reader.fence).await.unwrap(), Ok(Parked::Waiting));
    assert_eq!(world.store.park(parent.fence).await.unwrap(), Ok(Parked::Waiting));
    let stopping = world.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(stopping.status, RunStatus::Stopping);
    assert_eq!(world.status(&waited.run_id).await, RunStatus::Stopping);
    assert_eq!(world.status(&grandchild.run_id).await, RunStatus::Stopped);
    assert_eq!(world.status(&free.run_id).await, RunStatus::Pending, "nobody waits for it");
    let claimed = world.claim_as("runner", 10, LONG).await;
    let stops: Vec<_> = claimed.iter().map(|claim| (claim.fence.run_id.clone(), claim.stop)).collect();
    assert!(stops.contains(&(submitted.run_id, true)));
    assert!(stops.contains(&(waited.run_id, true)));
    assert!(stops.contains(&(free.run_id, false)));
}

pub(crate) async fn a_run_that_is_to_stop_starts_nothing_more(world: &World) {
    let submitted = world.submit("writer").await;
    let parent = world.claim().await;
    let sync = |call: &str| child(&parent, "reader", call, ExecutionMode::Sync);
    let started = world.store.submit(sync("before")).await.unwrap().unwrap();
    world.store.stop(&submitted.run_id).await.unwrap().unwrap();
    let refused = family_refusal(world.store.submit(sync("after")).await.unwrap());
    assert_eq!(refused, "the run is to stop: it starts nothing more");
    let again = world.store.submit(sync("before")).await.unwrap().unwrap();
    assert_eq!((again.run_id, again.is_repeated), (started.run_id, true));
}

pub(crate) async fn children_stop_when_nobody_waits_for_them_any_more(world: &World) {
    world.submit("writer").await;
    let parent = world.claim().await;
    let pending = world.delegate(&parent, "reader", ExecutionMode::Sync).await;
    let new = child(&parent, "counter", "free", ExecutionMode::AsyncPoll);
    let free = world.store.submit(new).await.unwrap().unwrap();
    world.finish(&parent.fence, 1, success("without it")).await.unwrap();
    assert_eq!(world.status(&pending.run_id).await, RunStatus::Stopped);
    assert_eq!(world.status(&free.run_id).await, RunStatus::Pending, "nobody waited for it");
    assert_eq!(world.claim().await.fence.run_id, free.run_id);

    world.submit("writer").await;
    let parent = world.claim().await;
    let worked_on = world.delegate(&parent, "reader", ExecutionMode::Sync).await;
    let reader = world.claim().await;
    let grandchild = world.delegate(&reader, "looker", ExecutionMode::Sync).await;
    world.finish(&parent.fence, 1, success("without them")).await.unwrap();
    assert_eq!(world.status(&worked_on.run_id).await, RunStatus::Stopping);
    assert_eq!(world.status(&grandchild.run_id).await, RunStatus::Stopped);
    assert!(world.append(&reader.fence, 1, vec![message("partial")]).await.unwrap().stop);
}

pub(crate) async fn a_released_run_is_ended_by_a_runner(world: &World) {
    let submitted = world.submit("writer").await;
    let first = world.claim().await;
    world.append(&first.fence, 1, vec![message("partial")]).await.unwrap();
    world.store.release(first.fence).await.unwrap().unwrap();
    let stopping = world.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(stopping.status, RunStatus::Stopping);
    let second = world.claim().await;
    assert!(second.stop);
    assert_eq!(world.status(&submitted.run_id).await, RunStatus::Stopping);
}

pub(crate) async fn an_ended_run_stays_as_it_is(world: &World) {
    let submitted = world.submit("writer").await;
    let fence = world.complete_next("done").await.fence;
    let before = world.run(&submitted.run_id).await;
    let after = world.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(after, before);
    let journal = world.journal(&submitted.session_id).await;
    assert_eq!(body(journal.last().unwrap())["status"], "completed");
    let other = world.submit("writer").await;
    world.store.stop(&other.run_id).await.unwrap().unwrap();
    assert_eq!(world.append(&fence, 2, vec![message("late")]).await, Err(Stale));
}

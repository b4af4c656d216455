//! Stopping runs in every status.

use slipform_store::{Parked, Stale};
use slipform_types::{ExecutionMode, RunStatus};

use crate::support::{
    Fixture, LONG, body, child, delegation_refusal, follow_up, message, new_run_id, success,
};

pub(crate) async fn stopping_an_unclaimed_run_ends_it(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let stopped = test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(stopped.status, RunStatus::Stopped);
    let error = stopped.error.unwrap();
    assert_eq!((&error["type"], &error["message"]), (&"stopped".into(), &"the run was stopped".into()));
    assert_eq!(
        test.event_types(&submitted.session_id).await,
        ["run_start", "stop_requested", "run_completed"]
    );
    assert!(test.claim_as("runner", 10, LONG).await.is_empty());
    let next = test.store.submit(follow_up("writer", &submitted.session_id, false)).await.unwrap();
    assert!(next.is_ok(), "the session is free");
}

pub(crate) async fn stopping_a_queued_run_journals_its_end_in_turn(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let session = &submitted.session_id;
    let claimed = test.claim().await;
    let queued = test.store.submit(follow_up("writer", session, true)).await.unwrap().unwrap();
    let third = test.store.submit(follow_up("writer", session, true)).await.unwrap().unwrap();
    let stopped = test.store.stop(&queued.run_id).await.unwrap().unwrap();
    assert_eq!(stopped.status, RunStatus::Stopped);
    assert!(stopped.finished_at.is_some());
    assert_eq!(test.event_types(session).await, ["run_start"], "the journal belongs to the active run");
    test.finish(&claimed.fence, 1, success("done")).await.unwrap();
    let expected =
        ["run_start", "result", "run_completed", "run_start", "stop_requested", "run_completed", "run_start"];
    assert_eq!(test.event_types(session).await, expected);
    assert_eq!(test.status(&queued.run_id).await, RunStatus::Stopped);
    assert_eq!(test.claim().await.fence.run_id, third.run_id);
}

pub(crate) async fn stopping_an_active_run_is_reported_to_its_runner(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let fence = test.claim().await.fence;
    let stopping = test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(stopping.status, RunStatus::Stopping);
    assert!(test.append(&fence, 1, vec![message("partial")]).await.unwrap().is_stopping);
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Stopping);
    assert!(test.store.stop(&submitted.run_id).await.unwrap().is_some(), "a repeated stop is accepted");
    assert!(test.claim_as("other", 10, LONG).await.is_empty());
    test.finish(&fence, 2, success("it was done already")).await.unwrap();
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Completed);
    assert!(test.store.stop(&new_run_id()).await.unwrap().is_none());
}

pub(crate) async fn stopping_a_waiting_run_stops_its_children(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    let waited = test.delegate(&parent, "reader", ExecutionMode::Sync).await;
    let new = child(&parent, "counter", "free", ExecutionMode::AsyncPoll);
    let free = test.store.submit(new).await.unwrap().unwrap();
    let reader = test.claim().await;
    let grandchild = test.delegate(&reader, "looker", ExecutionMode::Sync).await;
    assert_eq!(test.store.park(reader.fence).await.unwrap(), Ok(Parked::Waiting));
    assert_eq!(test.store.park(parent.fence).await.unwrap(), Ok(Parked::Waiting));
    let stopping = test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(stopping.status, RunStatus::Stopping);
    assert_eq!(test.status(&waited.run_id).await, RunStatus::Stopping);
    assert_eq!(test.status(&grandchild.run_id).await, RunStatus::Stopped);
    assert_eq!(test.status(&free.run_id).await, RunStatus::Pending, "the parent does not wait for it");
    let claimed = test.claim_as("runner", 10, LONG).await;
    let stops: Vec<_> = claimed.iter().map(|claim| (claim.fence.run_id.clone(), claim.is_stopping)).collect();
    assert!(stops.contains(&(submitted.run_id, true)));
    assert!(stops.contains(&(waited.run_id, true)));
    assert!(stops.contains(&(free.run_id, false)));
}

pub(crate) async fn stopping_run_cannot_start_children(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    let sync = |call: &str| child(&parent, "reader", call, ExecutionMode::Sync);
    let started = test.store.submit(sync("before")).await.unwrap().unwrap();
    test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    let refused = delegation_refusal(test.store.submit(sync("after")).await.unwrap());
    assert_eq!(refused, "the run is to stop: it starts nothing more");
    let again = test.store.submit(sync("before")).await.unwrap().unwrap();
    assert_eq!((again.run_id, again.is_repeated), (started.run_id, true));
}

pub(crate) async fn children_stop_when_their_parent_ends(test: &Fixture) {
    test.submit("writer").await;
    let parent = test.claim().await;
    let pending = test.delegate(&parent, "reader", ExecutionMode::Sync).await;
    let new = child(&parent, "counter", "free", ExecutionMode::AsyncPoll);
    let free = test.store.submit(new).await.unwrap().unwrap();
    test.finish(&parent.fence, 1, success("without it")).await.unwrap();
    assert_eq!(test.status(&pending.run_id).await, RunStatus::Stopped);
    assert_eq!(test.status(&free.run_id).await, RunStatus::Pending, "the parent did not wait for it");
    assert_eq!(test.claim().await.fence.run_id, free.run_id);

    test.submit("writer").await;
    let parent = test.claim().await;
    let worked_on = test.delegate(&parent, "reader", ExecutionMode::Sync).await;
    let reader = test.claim().await;
    let grandchild = test.delegate(&reader, "looker", ExecutionMode::Sync).await;
    test.finish(&parent.fence, 1, success("without them")).await.unwrap();
    assert_eq!(test.status(&worked_on.run_id).await, RunStatus::Stopping);
    assert_eq!(test.status(&grandchild.run_id).await, RunStatus::Stopped);
    assert!(test.append(&reader.fence, 1, vec![message("partial")]).await.unwrap().is_stopping);
}

pub(crate) async fn stopping_a_released_run_leaves_it_to_a_runner(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let first = test.claim().await;
    test.append(&first.fence, 1, vec![message("partial")]).await.unwrap();
    test.store.release(first.fence).await.unwrap().unwrap();
    let stopping = test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(stopping.status, RunStatus::Stopping);
    let second = test.claim().await;
    assert!(second.is_stopping);
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Stopping);
}

pub(crate) async fn stopping_an_ended_run_has_no_effect(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let fence = test.complete_next("done").await.fence;
    let before = test.run(&submitted.run_id).await;
    let after = test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(after, before);
    let journal = test.journal(&submitted.session_id).await;
    assert_eq!(body(journal.last().unwrap())["status"], "completed");
    let other = test.submit("writer").await;
    test.store.stop(&other.run_id).await.unwrap().unwrap();
    assert_eq!(test.append(&fence, 2, vec![message("late")]).await, Err(Stale));
}

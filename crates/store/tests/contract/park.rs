//! Runs that wait for their children.

use slipform_store::Parked;
use slipform_types::{EventBody, ExecutionMode, RunStatus};

use crate::test_store::{LONG, TestStore, body, child, message, success};

const SYNC: ExecutionMode = ExecutionMode::Sync;

pub(crate) async fn a_parked_run_goes_on_when_its_child_ends(test: &TestStore) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    let started = test.delegate(&parent, "reader", SYNC).await;
    assert_eq!(test.store.park(parent.fence.clone()).await.unwrap(), Ok(Parked::Waiting));
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Waiting);
    test.complete_next("read").await;
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Pending);
    let journal = test.journal(&submitted.session_id).await;
    let told = body(&journal[1]);
    assert_eq!(told["event_type"], "child_completed");
    assert_eq!(told["child_run_id"], started.run_id.as_str());
    assert_eq!((&told["status"], &told["result_text"]), (&"completed".into(), &"read".into()));
    let again = test.claim().await;
    assert_eq!((again.fence.token, again.journal.len()), (2, 2));
    assert_eq!(test.store.park(again.fence).await.unwrap(), Ok(Parked::Waiting), "it is told once");
}

pub(crate) async fn a_child_may_end_before_its_parent_parks(test: &TestStore) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    for agent in ["reader", "counter"] {
        test.delegate(&parent, agent, SYNC).await;
        test.complete_next(agent).await;
    }
    assert_eq!(test.kinds(&submitted.session_id).await, ["run_start"]);
    assert_eq!(test.store.park(parent.fence).await.unwrap(), Ok(Parked::Available));
    let journal = test.journal(&submitted.session_id).await;
    let told: Vec<_> = journal[1..].iter().map(|event| body(event)["result_text"].clone()).collect();
    assert_eq!(told, ["reader", "counter"]);
}

pub(crate) async fn a_run_that_is_worked_on_hears_when_it_parks(test: &TestStore) {
    let submitted = test.submit("writer").await;
    let first = test.claim().await;
    test.delegate(&first, "reader", SYNC).await;
    test.store.release(first.fence).await.unwrap().unwrap();
    let runs = test.claim_as("runner", 2, LONG).await;
    let find = |id: &slipform_types::RunId, is_same: bool| {
        runs.iter().find(|claim| (claim.fence.run_id == *id) == is_same).unwrap().fence.clone()
    };
    let (parent, reader) = (find(&submitted.run_id, true), find(&submitted.run_id, false));
    test.finish(&reader, 1, success("read")).await.unwrap();
    test.append(&parent, 1, vec![message("meanwhile")]).await.unwrap();
    assert_eq!(test.store.park(parent).await.unwrap(), Ok(Parked::Available));
    assert_eq!(test.kinds(&submitted.session_id).await, ["run_start", "message", "child_completed"]);
}

pub(crate) async fn parking_and_ending_at_once_lose_nothing(test: &TestStore) {
    for round in 0..30 {
        let submitted = test.submit("writer").await;
        let parent = test.claim().await;
        let mut children = Vec::new();
        for call in ["one", "two"] {
            test.store.submit(child(&parent, "reader", call, SYNC)).await.unwrap().unwrap();
            children.push(test.claim().await.fence);
        }
        let (one, two, parked) = tokio::join!(
            test.finish(&children[0], 1, success("one")),
            test.finish(&children[1], 1, success("two")),
            test.store.park(parent.fence.clone()),
        );
        assert!(one.is_ok() && two.is_ok() && parked.unwrap().is_ok(), "round {round}");
        // It is there again, and hears of both before it would wait for ever.
        let again = test.claim().await;
        assert_eq!(again.fence.run_id, submitted.run_id);
        let mut told = again.journal.iter().filter(|event| event.body.contains("child_completed")).count();
        if told < 2 {
            assert_eq!(test.store.park(again.fence).await.unwrap(), Ok(Parked::Available));
            let last = test.claim().await;
            told = last.journal.iter().filter(|event| event.body.contains("child_completed")).count();
        }
        assert_eq!(told, 2, "round {round}");
    }
}

pub(crate) async fn a_released_run_is_no_lost_attempt(test: &TestStore) {
    let submitted = test.submit("writer").await;
    for attempt in 1..=5 {
        let claimed = test.claim().await;
        assert_eq!(claimed.fence.token, attempt);
        test.append(&claimed.fence, 1, vec![message("kept")]).await.unwrap();
        test.store.release(claimed.fence).await.unwrap().unwrap();
    }
    let run = test.run(&submitted.run_id).await;
    assert_eq!((run.status, run.attempts), (RunStatus::Pending, 5));
    assert_eq!(test.journal(&submitted.session_id).await.len(), 6);
}

pub(crate) async fn a_stopping_run_does_not_wait(test: &TestStore) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    test.delegate(&parent, "reader", ExecutionMode::AsyncPoll).await;
    test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(test.store.park(parent.fence).await.unwrap(), Ok(Parked::Available));
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Stopping);
    let runs = test.claim_as("runner", 2, LONG).await;
    let claimed = runs.iter().find(|claim| claim.fence.run_id == submitted.run_id).unwrap();
    assert!(claimed.stop);
    let end = vec![EventBody::RunCompleted {
        status: RunStatus::Stopped,
        error: None,
        salvage: None,
        receipt: None,
    }];
    test.finish(&claimed.fence, 1, end).await.unwrap();
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Stopped);
}

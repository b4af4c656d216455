//! Runs that wait for their children.

use slipform_store::Parked;
use slipform_types::{EventBody, ExecutionMode, RunStatus};

use crate::support::{Fixture, LONG, body, child, message, success};

const SYNC: ExecutionMode = ExecutionMode::Sync;

pub(crate) async fn parked_run_is_queued_when_child_ends(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    let started = test.delegate(&parent, "reader", SYNC).await;
    assert_eq!(test.store.park(parent.fence.clone()).await.unwrap(), Ok(Parked::Waiting));
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Waiting);
    test.complete_next("read").await;
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Pending);
    let journal = test.journal(&submitted.session_id).await;
    let delivered = body(&journal[1]);
    assert_eq!(delivered["event_type"], "child_completed");
    assert_eq!(delivered["child_run_id"], started.run_id.as_str());
    assert_eq!((&delivered["status"], &delivered["result_text"]), (&"completed".into(), &"read".into()));
    let again = test.claim().await;
    assert_eq!((test.run(&again.fence.run_id).await.attempts, again.journal.events.len()), (2, 2));
    assert_eq!(
        test.store.park(again.fence).await.unwrap(),
        Ok(Parked::Waiting),
        "the result is delivered once"
    );
}

pub(crate) async fn parking_after_child_ended_delivers_results(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    for agent in ["reader", "counter"] {
        test.delegate(&parent, agent, SYNC).await;
        test.complete_next(agent).await;
    }
    assert_eq!(test.event_types(&submitted.session_id).await, ["run_start"]);
    assert_eq!(test.store.park(parent.fence).await.unwrap(), Ok(Parked::Available));
    let journal = test.journal(&submitted.session_id).await;
    let delivered: Vec<_> = journal[1..].iter().map(|event| body(event)["result_text"].clone()).collect();
    assert_eq!(delivered, ["reader", "counter"]);
}

pub(crate) async fn active_parent_receives_result_when_it_parks(test: &Fixture) {
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
    assert_eq!(test.event_types(&submitted.session_id).await, ["run_start", "message", "child_completed"]);
}

pub(crate) async fn concurrent_park_and_child_end_lose_no_result(test: &Fixture) {
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
        // The parent is queued again and receives both results before it could wait forever.
        let again = test.claim().await;
        assert_eq!(again.fence.run_id, submitted.run_id);
        let mut delivered =
            again.journal.events.iter().filter(|event| event.body.contains("child_completed")).count();
        if delivered < 2 {
            assert_eq!(test.store.park(again.fence).await.unwrap(), Ok(Parked::Available));
            let last = test.claim().await;
            delivered =
                last.journal.events.iter().filter(|event| event.body.contains("child_completed")).count();
        }
        assert_eq!(delivered, 2, "round {round}");
    }
}

pub(crate) async fn released_run_counts_no_loss(test: &Fixture) {
    let submitted = test.submit("writer").await;
    for attempt in 1..=5 {
        let claimed = test.claim().await;
        assert_eq!(test.run(&claimed.fence.run_id).await.attempts, attempt);
        test.append(&claimed.fence, 1, vec![message("kept")]).await.unwrap();
        test.store.release(claimed.fence).await.unwrap().unwrap();
    }
    let run = test.run(&submitted.run_id).await;
    assert_eq!((run.status, run.attempts), (RunStatus::Pending, 5));
    assert_eq!(test.journal(&submitted.session_id).await.len(), 6);
}

pub(crate) async fn parking_a_stopping_run_queues_it(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    test.delegate(&parent, "reader", ExecutionMode::AsyncPoll).await;
    test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(test.store.park(parent.fence).await.unwrap(), Ok(Parked::Available));
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Stopping);
    let runs = test.claim_as("runner", 2, LONG).await;
    let claimed = runs.iter().find(|claim| claim.fence.run_id == submitted.run_id).unwrap();
    assert!(claimed.is_stopping);
    let end = vec![EventBody::RunCompleted {
        status: RunStatus::Stopped,
        error: None,
        salvage: None,
        receipt: None,
    }];
    test.finish(&claimed.fence, 1, end).await.unwrap();
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Stopped);
}

//! Submitting runs.

use slipform_store::{Idempotency, NewRun, Refusal};
use slipform_types::{RunStatus, RunType};

use crate::support::{Fixture, follow_up, new_session_id, success, task};

fn keyed(new: NewRun, key: &str, hash: &str) -> NewRun {
    NewRun { idempotency: Some(Idempotency { key: key.to_owned(), body_hash: hash.to_owned() }), ..new }
}

pub(crate) async fn new_run_has_session_and_run_start(test: &Fixture) {
    let submitted = test.submit("writer").await;
    assert!(!submitted.is_repeated);
    let run = test.run(&submitted.run_id).await;
    assert_eq!((run.status, run.run_type), (RunStatus::Pending, RunType::StartSession));
    assert_eq!((run.agent_name.as_str(), run.attempts), ("writer", 0));
    assert_eq!(run.contract.unwrap()["hash"], "sha256:0");
    assert!(run.started_at.is_none() && run.finished_at.is_none() && run.error.is_none());
    assert_eq!(test.event_types(&submitted.session_id).await, ["run_start"]);
    let session = test.store.session(&submitted.session_id).await.unwrap().unwrap();
    assert_eq!((session.last_seq, session.status), (1, RunStatus::Pending));
    assert_eq!(session.project_dir.as_deref(), Some("/project"));
    assert_eq!(session.last_run_id, submitted.run_id);
}

pub(crate) async fn busy_session_refuses_or_queues_run(test: &Fixture) {
    let first = test.submit("writer").await;
    let session = &first.session_id;
    let refused = test.store.submit(follow_up("writer", session, false)).await.unwrap();
    let busy = Refusal::SessionBusy { session_id: session.clone(), run_id: first.run_id.clone() };
    assert_eq!(refused, Err(busy));
    let queued = test.store.submit(follow_up("writer", session, true)).await.unwrap().unwrap();
    assert_eq!(test.status(&queued.run_id).await, RunStatus::Pending);
    assert_eq!(test.event_types(session).await, ["run_start"]);
    assert!(test.run(&queued.run_id).await.contract.is_some());
    test.complete_next("one").await;
    assert_eq!(test.event_types(session).await, ["run_start", "result", "run_completed", "run_start"]);
    assert_eq!(test.claim().await.fence.run_id, queued.run_id);
    let nowhere = new_session_id();
    let refused = test.store.submit(follow_up("writer", &nowhere, true)).await.unwrap();
    assert_eq!(refused, Err(Refusal::SessionNotFound(nowhere)));
}

pub(crate) async fn queued_runs_are_activated_in_order(test: &Fixture) {
    let first = test.submit("writer").await;
    let mut expected = vec![first.run_id.clone()];
    for _ in 0..3 {
        let next = test.store.submit(follow_up("writer", &first.session_id, true)).await.unwrap().unwrap();
        expected.push(next.run_id);
    }
    for run in &expected {
        let claimed = test.claim_as("runner", 10, 60_000).await;
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].fence.run_id, *run);
        test.finish(&claimed[0].fence, 1, success("done")).await.unwrap();
    }
    let next = test.store.submit(follow_up("writer", &first.session_id, false)).await.unwrap();
    assert!(next.is_ok(), "the session is free");
}

pub(crate) async fn repeated_idempotency_key_returns_same_run(test: &Fixture) {
    let first = test.store.submit(keyed(task("writer"), "key", "hash")).await.unwrap().unwrap();
    let again = test.store.submit(keyed(task("writer"), "key", "hash")).await.unwrap().unwrap();
    assert_eq!((&again.run_id, &again.session_id), (&first.run_id, &first.session_id));
    assert!(again.is_repeated);
    let other = test.store.submit(keyed(task("writer"), "key", "other")).await.unwrap();
    assert_eq!(other, Err(Refusal::IdempotencyConflict));
    assert_eq!(test.claim_as("runner", 10, 60_000).await.len(), 1);
}

pub(crate) async fn run_is_found_by_idempotency_key(test: &Fixture) {
    assert_eq!(test.store.run_by_idempotency_key("key").await.unwrap(), None);
    let first = test.store.submit(keyed(task("writer"), "key", "hash")).await.unwrap().unwrap();
    let (found, hash) = test.store.run_by_idempotency_key("key").await.unwrap().unwrap();
    assert_eq!((found.run_id, found.session_id), (first.run_id, first.session_id));
    assert_eq!((found.is_repeated, hash.as_str()), (true, "hash"));
}

pub(crate) async fn refused_submission_releases_its_key(test: &Fixture) {
    let first = test.submit("writer").await;
    let refused = keyed(follow_up("writer", &first.session_id, false), "key", "hash");
    assert!(test.store.submit(refused.clone()).await.unwrap().is_err());
    test.complete_next("done").await;
    let taken = test.store.submit(refused).await.unwrap().unwrap();
    assert!(!taken.is_repeated);
}

pub(crate) async fn concurrent_submissions_with_one_key_create_one_run(test: &Fixture) {
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let store = test.store.clone();
            tokio::spawn(async move { store.submit(keyed(task("writer"), "key", "hash")).await })
        })
        .collect();
    let mut runs = Vec::new();
    for asked in asking {
        runs.push(asked.await.unwrap().unwrap().unwrap());
    }
    assert!(runs.iter().all(|run| run.run_id == runs[0].run_id));
    assert_eq!(runs.iter().filter(|run| !run.is_repeated).count(), 1);
}

//! Sweeping expired leases, stop requests and deadlines.

use slipform_store::{Append, ClaimRequest, NewRun, Parked, SweepLimits, Swept};
use slipform_testkit::wait_until_async;
use slipform_types::{EventBody, ExecutionMode, RunStatus};

use crate::support::{Fixture, LONG, body, fresh_token, message, runner, task};

const LIMITS: SweepLimits = SweepLimits { losses_max: 3, stop_wait_ms: LONG, batch: 100 };

/// Sweeps until something has changed, and returns the changes.
async fn sweep(test: &Fixture, limits: SweepLimits) -> Swept {
    let done = std::sync::Mutex::new(Swept::default());
    wait_until_async("something is swept", || async {
        let swept = test.store.sweep(limits).await.unwrap();
        let is_some = swept != Swept::default();
        *done.lock().unwrap() = swept;
        is_some
    })
    .await;
    done.into_inner().unwrap()
}

pub(crate) async fn run_with_expired_lease_returns_to_queue(test: &Fixture) {
    let pinned = NewRun { pinned_to: Some("mine".to_owned()), ..task("writer") };
    let submitted = test.store.submit(pinned).await.unwrap().unwrap();
    let fence = test.claim_as("mine", 1, 1).await.remove(0).fence;
    assert_eq!(sweep(test, LIMITS).await, Swept { returned: 1, ..Swept::default() });
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Pending);
    let journal = test.journal(&submitted.session_id).await;
    let event = body(&journal[1]);
    assert_eq!(event["event_type"], "lease_expired");
    assert_eq!((&event["attempt"], &event["losses"]), (&1.into(), &1.into()));
    assert!(test.append(&fence, 1, vec![message("late")]).await.is_err());
    assert!(test.claim_as("theirs", 1, LONG).await.is_empty(), "the run is still pinned");
    let mine = ClaimRequest {
        runner_id: "mine".to_owned(),
        slots: 1,
        lease_ms: LONG,
        only_pinned: true,
        token: fresh_token(),
    };
    assert_eq!(test.store.claim(mine).await.unwrap().len(), 1, "its runner claims it");
    assert_eq!(test.store.sweep(LIMITS).await.unwrap(), Swept::default());
}

pub(crate) async fn run_fails_after_three_lost_attempts(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    let lost = test.delegate(&parent, "reader", ExecutionMode::Sync).await;
    assert_eq!(test.store.park(parent.fence).await.unwrap(), Ok(Parked::Waiting));
    let first = test.claim().await.fence;
    test.append(&first, 1, vec![message("so far")]).await.unwrap();
    test.store.release(first).await.unwrap().unwrap();
    for _ in 0..2 {
        test.claim_as("runner", 1, 1).await;
        assert_eq!(sweep(test, LIMITS).await.returned, 1);
    }
    test.claim_as("runner", 1, 1).await;
    assert_eq!(sweep(test, LIMITS).await, Swept { lost: 1, ..Swept::default() });
    let run = test.run(&lost.run_id).await;
    assert_eq!((run.status, run.attempts), (RunStatus::Failed, 4));
    let error = run.error.unwrap();
    let message = "the run's lease expired 3 times without progress";
    assert_eq!((&error["type"], &error["message"]), (&"lost".into(), &message.into()));
    let journal = test.journal(&lost.session_id).await;
    assert_eq!(body(journal.last().unwrap())["salvage"]["replies"], serde_json::json!(["so far"]));
    let journal = test.journal(&submitted.session_id).await;
    assert_eq!(body(journal.last().unwrap())["error"]["type"], "lost", "the parent receives the failure");
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Pending);
}

pub(crate) async fn progress_resets_loss_count(test: &Fixture) {
    let submitted = test.submit("writer").await;
    for step in 1..=5 {
        for losses in 1..=2 {
            test.claim_as("runner", 1, 1).await;
            assert_eq!(sweep(test, LIMITS).await, Swept { returned: 1, ..Swept::default() });
            let journal = test.journal(&submitted.session_id).await;
            assert_eq!(body(journal.last().unwrap())["losses"], losses, "step {step}");
        }
        let fence = test.claim().await.fence;
        test.append(&fence, 1, vec![message("further")]).await.unwrap();
        test.store.release(fence).await.unwrap().unwrap();
    }
    for lost in [0, 0, 1] {
        let claimed = test.claim().await.fence;
        // Events like `attempt_started` are not progress.
        let bodies = vec![EventBody::StopRequested { partial: None }];
        let append = Append { fence: claimed, number: 1, bodies, progress: None, lease_ms: 1 };
        test.store.append(append).await.unwrap().unwrap();
        assert_eq!(sweep(test, LIMITS).await.lost, lost);
    }
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Failed);
}

pub(crate) async fn stopping_run_without_runner_is_ended(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let claimed = test.claim().await;
    test.append(&claimed.fence, 1, vec![message("partial")]).await.unwrap();
    test.store.release(claimed.fence).await.unwrap().unwrap();
    test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(test.store.sweep(LIMITS).await.unwrap(), Swept::default(), "the stop wait has not passed");
    let swept = sweep(test, SweepLimits { stop_wait_ms: 0, ..LIMITS }).await;
    assert_eq!(swept, Swept { stopped: 1, ..Swept::default() });
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Stopped);
    let kinds = test.event_types(&submitted.session_id).await;
    assert_eq!(kinds, ["run_start", "message", "stop_requested", "run_completed"]);
    let journal = test.journal(&submitted.session_id).await;
    assert_eq!(body(&journal[3])["salvage"]["replies"], serde_json::json!(["partial"]));

    let submitted = test.submit("writer").await;
    test.claim_as("runner", 1, 1).await;
    test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    assert_eq!(sweep(test, LIMITS).await.returned, 1);
    assert_eq!(
        test.status(&submitted.run_id).await,
        RunStatus::Stopping,
        "the stop request survives the expired lease"
    );
}

pub(crate) async fn waiting_run_past_deadline_returns_to_queue(test: &Fixture) {
    let limited = NewRun { timeout_ms: Some(1), ..task("writer") };
    let submitted = test.store.submit(limited).await.unwrap().unwrap();
    let parent = test.claim().await;
    let started = test.delegate(&parent, "reader", ExecutionMode::Sync).await;
    assert_eq!(test.store.park(parent.fence).await.unwrap(), Ok(Parked::Waiting));
    assert_eq!(sweep(test, LIMITS).await, Swept { overdue: 1, ..Swept::default() });
    assert_eq!(test.status(&started.run_id).await, RunStatus::Pending);
    let claimed = test.claim_as("runner", 10, LONG).await;
    let parent = claimed.iter().find(|claim| claim.fence.run_id == submitted.run_id).unwrap();
    assert!(parent.time_left_ms.is_some_and(|left| left <= 0));
}

pub(crate) async fn concurrent_sweepers_count_a_loss_once(test: &Fixture) {
    for _ in 0..10 {
        test.submit("writer").await;
    }
    test.claim_as("runner", 10, 1).await;
    wait_until_async("all leases expire and are swept", || async {
        let (one, two, three) =
            tokio::join!(test.store.sweep(LIMITS), test.store.sweep(LIMITS), test.store.sweep(LIMITS));
        assert_eq!(one.unwrap().lost + two.unwrap().lost + three.unwrap().lost, 0);
        test.store.counts().await.unwrap().queue_depth == 10
    })
    .await;
    for claim in test.claim_as("runner", 10, LONG).await {
        assert_eq!(claim.journal.events.len(), 2);
        assert_eq!(body(&claim.journal.events[1])["losses"], 1);
    }
}

pub(crate) async fn outage_extends_leases_that_were_not_swept(test: &Fixture) {
    let (lost, kept, parked) =
        (test.submit("writer").await, test.submit("writer").await, test.submit("writer").await);
    let late = test.claim_as("runner", 1, 1).await.remove(0).fence;
    assert_eq!(late.run_id, lost.run_id);
    assert_eq!(sweep(test, LIMITS).await.returned, 1);
    let expired = test.claim_as("runner", 1, -1).await.remove(0).fence;
    assert_eq!(expired.run_id, kept.run_id);
    let waiting = test.claim_as("runner", 1, LONG).await.remove(0).fence;
    assert_eq!(waiting.run_id, parked.run_id);
    assert_eq!(test.store.park(waiting).await.unwrap(), Ok(Parked::Waiting));
    assert!(test.append(&expired, 1, vec![message("late")]).await.is_err(), "the lease has expired");
    assert_eq!(test.store.extend_leases(None, LONG).await.unwrap(), 0, "no runner was ever seen");

    test.store.register(runner("another")).await.unwrap();
    wait_until_async("the outage extends the lease", || async {
        assert!(test.store.extend_leases(None, LONG).await.unwrap() <= 1, "only one lease is open");
        test.append(&expired, 1, vec![message("in time")]).await.is_ok()
    })
    .await;
    assert_eq!(test.store.extend_leases(Some(1), 1).await.unwrap(), 0, "a lease is never shortened");
    let short = test.claim_as("runner", 1, -1).await.remove(0).fence;
    assert_eq!(short.run_id, lost.run_id);
    assert!(test.store.extend_leases(Some(LONG), LONG).await.unwrap() >= 1);
    assert!(
        test.append(&short, 1, vec![message("in time")]).await.is_ok(),
        "the duration of the outage is given"
    );
    assert_eq!(test.store.sweep(LIMITS).await.unwrap(), Swept::default());
    assert!(test.append(&late, 1, vec![message("late")]).await.is_err(), "a swept lease stays lost");
}

//! Claims and adoption.

use std::collections::HashSet;
use std::sync::Mutex;

use slipform_store::{ClaimRequest, NewRun, Stale, SweepLimits};
use slipform_testkit::wait_until_async;
use slipform_types::{ExecutionMode, RunStatus};

use crate::support::{Fixture, LONG, child, event_type, fresh_token, message, runner, task};

pub(crate) async fn longest_waiting_run_is_claimed_first(test: &Fixture) {
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push(test.submit("writer").await.run_id);
    }
    let mut claimed = Vec::new();
    for slots in [2, 1, 4] {
        let runs = test.claim_as("runner", slots, LONG).await;
        assert!(runs.len() <= slots);
        claimed.extend(runs.into_iter().map(|claim| claim.fence.run_id));
    }
    assert_eq!(claimed, expected);
    assert!(test.claim_as("runner", 10, LONG).await.is_empty());
    let run = test.run(&expected[0]).await;
    assert_eq!((run.status, run.attempts), (RunStatus::Claimed, 1));
    assert!(run.started_at.is_some());
}

pub(crate) async fn pinned_run_waits_for_its_runner(test: &Fixture) {
    let pinned = NewRun { pinned_to: Some("mine".to_owned()), ..task("writer") };
    test.store.submit(pinned).await.unwrap().unwrap();
    assert!(test.claim_as("theirs", 10, LONG).await.is_empty());
    assert_eq!(test.claim_as("mine", 10, LONG).await.len(), 1);
}

/// A request of a runner to which no run is pinned.
fn theirs(slots: usize) -> ClaimRequest {
    ClaimRequest {
        runner_id: "theirs".to_owned(),
        slots,
        lease_ms: LONG,
        only_pinned: false,
        token: fresh_token(),
    }
}

pub(crate) async fn run_pinned_to_dead_runner_is_adopted(test: &Fixture) {
    let pin = |runner: &str| NewRun { pinned_to: Some(runner.to_owned()), ..task("writer") };
    let kept = test.store.submit(pin("alive")).await.unwrap().unwrap();
    let orphan = test.store.submit(pin("never registered")).await.unwrap().unwrap();
    let free = test.submit("writer").await;
    test.store.register(runner("alive")).await.unwrap();
    let theirs = theirs(10);
    assert!(
        test.store.adopt(theirs.clone(), LONG).await.unwrap().is_empty(),
        "the runner may still register"
    );
    let adopted = Mutex::new(Vec::new());
    wait_until_async("the orphaned run is adopted", || async {
        test.store.renew("alive", Vec::new(), LONG).await.unwrap();
        *adopted.lock().unwrap() = test.store.adopt(theirs.clone(), 1_500).await.unwrap();
        !adopted.lock().unwrap().is_empty()
    })
    .await;
    let adopted: Vec<_> = adopted.into_inner().unwrap().into_iter().map(|claim| claim.fence.run_id).collect();
    assert_eq!(adopted, [orphan.run_id], "neither runs of live runners nor unpinned runs are adopted");
    wait_until_async("the other runner has been silent long enough", || async {
        let adopted = test.store.adopt(theirs.clone(), 0).await.unwrap();
        adopted.iter().any(|claim| claim.fence.run_id == kept.run_id)
    })
    .await;
    assert_eq!(test.claim().await.fence.run_id, free.run_id);
}

pub(crate) async fn run_of_dead_runner_is_adopted_when_its_lease_ends(test: &Fixture) {
    let pin = || NewRun { pinned_to: Some("killed".to_owned()), ..task("writer") };
    test.store.register(runner("killed")).await.unwrap();
    let lost = test.store.submit(pin()).await.unwrap().unwrap();
    assert_eq!(test.claim_as("killed", 1, 1).await[0].fence.run_id, lost.run_id);
    let limits = SweepLimits { losses_max: 3, stop_wait_ms: LONG, batch: 100 };
    wait_until_async("the lease ends", || async { test.store.sweep(limits).await.unwrap().returned == 1 })
        .await;
    // Behind the lost run in the queue.
    let queued = test.store.submit(pin()).await.unwrap().unwrap();
    assert!(
        test.store.adopt(theirs(10), LONG).await.unwrap().is_empty(),
        "the runner is not silent for long"
    );
    let adopted = test.store.adopt(theirs(1), 1).await.unwrap();
    let adopted: Vec<_> = adopted.into_iter().map(|claim| claim.fence.run_id).collect();
    assert_eq!(adopted, [lost.run_id], "no second wait");
    let claimed = test.store.claim(theirs(10)).await.unwrap();
    let claimed: Vec<_> = claimed.into_iter().map(|claim| claim.fence.run_id).collect();
    assert_eq!(claimed, [queued.run_id], "the other runs of a dead runner are free for all");
}

pub(crate) async fn adopted_run_is_released_from_dead_runner(test: &Fixture) {
    let pin = || NewRun { pinned_to: Some("never registered".to_owned()), ..task("writer") };
    let first = test.store.submit(pin()).await.unwrap().unwrap();
    let second = test.store.submit(pin()).await.unwrap().unwrap();
    let theirs = theirs(1);
    let adopted = Mutex::new(None);
    wait_until_async("one of the runs is adopted", || async {
        *adopted.lock().unwrap() = test.store.adopt(theirs.clone(), 0).await.unwrap().pop();
        adopted.lock().unwrap().is_some()
    })
    .await;
    let adopted = adopted.into_inner().unwrap().unwrap();
    assert_eq!(adopted.fence.run_id, first.run_id);
    // Both runs are unpinned now: the released one and the one that waited with it.
    test.store.release(adopted.fence).await.unwrap().unwrap();
    let mut claimed = [test.claim().await.fence.run_id, test.claim().await.fence.run_id];
    claimed.sort_by_key(|run| *run != first.run_id);
    assert_eq!(claimed, [first.run_id, second.run_id]);
}

pub(crate) async fn concurrent_claims_take_each_run_once(test: &Fixture) {
    for _ in 0..60 {
        test.submit("writer").await;
    }
    let claiming: Vec<_> = (0..8)
        .map(|runner| {
            let store = test.store.clone();
            tokio::spawn(async move {
                let mut mine = Vec::new();
                for _ in 0..40 {
                    let request = ClaimRequest {
                        runner_id: format!("{runner}"),
                        slots: 3,
                        lease_ms: LONG,
                        only_pinned: false,
                        token: fresh_token(),
                    };
                    mine.extend(store.claim(request).await.unwrap());
                }
                mine
            })
        })
        .collect();
    let mut all = Vec::new();
    for claimed in claiming {
        all.extend(claimed.await.unwrap());
    }
    let distinct: HashSet<_> = all.iter().map(|claim| claim.fence.run_id.clone()).collect();
    assert_eq!((all.len(), distinct.len()), (60, 60));
}

pub(crate) async fn time_limit_starts_at_first_claim(test: &Fixture) {
    let limited = NewRun { timeout_ms: Some(LONG), ..task("writer") };
    let submitted = test.store.submit(limited).await.unwrap().unwrap();
    let first = test.claim().await;
    assert!(first.time_left_ms.is_some_and(|left| left <= LONG && left > LONG - 60_000));
    let started_at = test.run(&submitted.run_id).await.started_at;
    test.store.release(first.fence).await.unwrap().unwrap();
    let second = test.claim().await;
    assert!(second.time_left_ms <= first.time_left_ms);
    assert_eq!(test.run(&submitted.run_id).await.started_at, started_at);
    test.submit("unlimited").await;
    assert_eq!(test.claim().await.time_left_ms, None);
}

pub(crate) async fn child_deadline_never_exceeds_parents(test: &Fixture) {
    let limited = NewRun { timeout_ms: Some(LONG), ..task("writer") };
    test.store.submit(limited).await.unwrap().unwrap();
    let parent = test.claim().await;
    for own in [None, Some(2 * LONG), Some(LONG / 2)] {
        let name = format!("reader of {own:?}");
        let wanted = NewRun { timeout_ms: own, ..child(&parent, &name, &name, ExecutionMode::Sync) };
        test.store.submit(wanted).await.unwrap().unwrap();
        let (claimed, most) = (test.claim().await, own.unwrap_or(LONG).min(LONG));
        assert!(claimed.time_left_ms.is_some_and(|left| left <= most && left > most - 60_000), "{name}");
        test.store.release(claimed.fence).await.unwrap().unwrap();
        let again = test.claim().await;
        assert!(again.time_left_ms <= claimed.time_left_ms, "{name}");
    }
}

pub(crate) async fn claim_returns_journal(test: &Fixture) {
    let submitted = test.submit("writer").await;
    test.complete_next("first").await;
    let next = crate::support::follow_up("writer", &submitted.session_id, false);
    test.store.submit(next).await.unwrap().unwrap();
    let claimed = test.claim().await;
    let kinds: Vec<String> = claimed.journal.events.iter().map(event_type).collect();
    assert_eq!(kinds, ["run_start", "result", "run_completed", "run_start"]);
    assert_eq!(claimed.project_dir.as_deref(), Some("/project"));
    assert_eq!((claimed.lineage.as_slice(), claimed.is_stopping), (["writer".to_owned()].as_slice(), false));
}

pub(crate) async fn long_journal_is_claimed_and_read_in_pages(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let first = test.claim().await;
    for number in 1..=7 {
        test.append(&first.fence, number, vec![message("x"); 100]).await.unwrap();
    }
    test.append(&first.fence, 8, vec![message(&"é".repeat(3 << 20)), message(&"y".repeat(1 << 20))])
        .await
        .unwrap();
    test.store.release(first.fence.clone()).await.unwrap().unwrap();
    let claimed = test.claim().await;
    assert!((1..=500).contains(&claimed.journal.events.len()) && claimed.journal.has_more);
    let (mut journal, mut pages) = (claimed.journal.events, Vec::new());
    loop {
        let after = journal.last().unwrap().seq;
        let page = test.store.events_of_attempt(claimed.fence.clone(), after).await.unwrap().unwrap();
        pages.push(page.events.len());
        journal.extend(page.events);
        if !page.has_more {
            break;
        }
    }
    // The event of 12 MiB is alone on its page.
    assert_eq!(pages[1..], [1, 1], "{pages:?}");
    assert_eq!(journal.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=703).collect::<Vec<_>>());
    let last = test.store.events(&submitted.session_id, 702, 10).await.unwrap();
    assert_eq!((last.events, last.has_more), (vec![journal[702].clone()], false));
    let stale = test.store.events_of_attempt(first.fence, 0).await.unwrap();
    assert_eq!(stale, Err(Stale));
}

//! Random concurrent operations. Every run must end exactly once, and no journal may have a gap.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slipform_store::{
    Append, ClaimRequest, Claimed, Fence, Page, RunFilter, SessionFilter, Store, SweepLimits,
};
use slipform_testkit::wait_until_async;
use slipform_types::ExecutionMode;
use tokio::sync::watch;

use crate::support::{Fixture, LONG, child, follow_up, fresh_token, message, success, task};

/// Number of steps per submitter.
const STEPS: usize = 60;

/// A lease that expires while other tasks run.
const SHORT: i64 = 30;

/// A high `losses_max`, because runs should survive lost attempts here.
const LIMITS: SweepLimits = SweepLimits { losses_max: 1000, stop_wait_ms: 20, batch: 100 };

/// A deterministic pseudo-random generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

async fn claim(store: &Store, lease_ms: i64) -> Option<Claimed> {
    let request = ClaimRequest {
        runner_id: "runner".to_owned(),
        slots: 1,
        lease_ms,
        only_pinned: false,
        token: fresh_token(),
    };
    store.claim(request).await.unwrap().pop()
}

fn written(fence: &Fence, number: i64, bodies: Vec<slipform_types::EventBody>) -> Append {
    Append { fence: fence.clone(), number, bodies, progress: None, lease_ms: SHORT }
}

/// Drives a run until it ends, parks or is abandoned. A refusal means that another attempt holds the run.
async fn work(store: &Store, claimed: &Claimed, random: &mut Random) {
    let fence = &claimed.fence;
    let modes = [ExecutionMode::Sync, ExecutionMode::AsyncCallback, ExecutionMode::AsyncPoll];
    for number in 1..=4 {
        match random.below(7) {
            0 => {
                let _ = store.release(fence.clone()).await.unwrap();
                return;
            }
            1 => return drop(store.finish(written(fence, number, success("done"))).await.unwrap()),
            2 => return, // The runner crashed.
            3 if claimed.lineage.len() < 3 && !claimed.is_stopping => {
                let agent = format!("agent{}", claimed.lineage.len());
                let mode = modes[random.below(3) as usize];
                let started = store.submit(child(claimed, &agent, &format!("{number}"), mode)).await.unwrap();
                // A child started by an earlier attempt may already have been delivered, and then nothing
                // would wake this run.
                if started.is_ok_and(|child| !child.is_repeated) && mode == ExecutionMode::Sync {
                    let _ = store.park(fence.clone()).await.unwrap();
                    return;
                }
            }
            _ => {}
        }
        if store.append(written(fence, number, vec![message("x")])).await.unwrap().is_err() {
            return;
        }
    }
    drop(store.finish(written(fence, 5, success("done"))).await.unwrap());
}

/// Submits and stops runs. `steps` counts the steps of the workers.
async fn submit_and_stop(store: Store, mut steps: watch::Receiver<u64>, mut random: Random) {
    let mut sessions = Vec::new();
    for step in 0..STEPS {
        match (random.below(4), sessions.last()) {
            (0, Some(session)) => drop(store.submit(follow_up("agent0", session, true)).await.unwrap()),
            (1, Some(_)) => {
                let filter = RunFilter::default();
                let runs = store.runs(filter, Page { after: None, limit: 10 }).await.unwrap().items;
                let run = &runs[random.below(runs.len() as u64) as usize];
                drop(store.stop(&run.run_id).await.unwrap());
            }
            _ if step < STEPS / 2 => {
                sessions.push(store.submit(task("agent0")).await.unwrap().unwrap().session_id);
            }
            // Lets the workers proceed before the next step.
            _ => steps.changed().await.unwrap(),
        }
    }
}

/// Ends all open runs. Parents receive the results of their children.
async fn drain(store: &Store) {
    wait_until_async("all runs end", async || {
        store.sweep(LIMITS).await.unwrap();
        while let Some(claimed) = claim(store, LONG).await {
            drop(store.finish(written(&claimed.fence, 1, success("done"))).await.unwrap());
        }
        let counts = store.counts().await.unwrap();
        counts.by_status.iter().all(|(status, _)| status.is_ended())
    })
    .await;
}

pub(crate) async fn random_concurrent_operations_end_every_run_once(test: &Fixture) {
    let is_done = Arc::new(AtomicBool::new(false));
    let steps = watch::Sender::new(0);
    let mut working = tokio::task::JoinSet::new();
    for seed in 1..=4 {
        let (store, is_done, steps) = (test.store.clone(), is_done.clone(), steps.clone());
        working.spawn(async move {
            let mut random = Random(seed * 0x9E37_79B9);
            while !is_done.load(Ordering::SeqCst) {
                match claim(&store, SHORT).await {
                    Some(claimed) => work(&store, &claimed, &mut random).await,
                    None => drop(store.sweep(LIMITS).await.unwrap()),
                }
                steps.send_modify(|steps| *steps += 1);
            }
        });
    }
    let submitting: Vec<_> = (11..=13)
        .map(|seed| {
            let (store, steps) = (test.store.clone(), steps.subscribe());
            tokio::spawn(submit_and_stop(store, steps, Random(seed * 0x9E37_79B9)))
        })
        .collect();
    for submitted in submitting {
        submitted.await.unwrap();
    }
    is_done.store(true, Ordering::SeqCst);
    while let Some(worked) = working.join_next().await {
        worked.unwrap();
    }
    drain(&test.store).await;
    assert_eq!(test.store.check().await.unwrap(), Vec::<String>::new());
    assert_each_ended_once(&test.store).await;
}

/// Asserts that every run has one start and one end in its journal, without events of other runs in between.
async fn assert_each_ended_once(store: &Store) {
    let mut after = None;
    let (mut active, mut ended) = (HashMap::new(), HashMap::new());
    loop {
        let listed = store.sessions(SessionFilter::default(), Page { after, limit: 100 }).await.unwrap();
        for session in &listed.items {
            for event in store.events(&session.session_id, 0, 10_000).await.unwrap().events {
                let session = event.session_id.clone();
                if event.body.starts_with("{\"event_type\":\"run_start\"") {
                    let before = active.insert(session, event.run_id.clone());
                    assert!(before.is_none(), "{before:?} has not ended");
                    continue;
                }
                assert_eq!(active.get(&session), Some(&event.run_id), "{event:?}");
                if event.body.starts_with("{\"event_type\":\"run_completed\"") {
                    active.remove(&session);
                    *ended.entry(event.run_id).or_insert(0) += 1;
                }
            }
        }
        after = listed.next;
        if after.is_none() {
            break;
        }
    }
    assert!(active.is_empty() && ended.values().all(|times| *times == 1));
    let total: i64 = store.counts().await.unwrap().by_status.iter().map(|(_, count)| count).sum();
    assert_eq!(ended.len() as i64, total);
}

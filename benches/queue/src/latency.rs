//! How long a run waits for a runner that waits for it: from the answer to its creation to the answer to the claim.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use crate::load::{Worker, register};
use crate::server::Server;
use crate::work::Bodies;

/// How long a runner waits for work before it asks again.
const CLAIM_WAIT: Duration = Duration::from_secs(2);

/// Connections that create runs. Each creates at its own times.
const CREATORS: usize = 8;

type Moments = Arc<Mutex<HashMap<String, Instant>>>;

/// Dispatch latencies in seconds, smallest first, at so many runs a second.
pub(crate) async fn measure(server: &Server, runners: usize, rate: f64, runs: usize) -> Result<Vec<f64>> {
    let runner = register(server.address).await?;
    let bodies = Arc::new(Bodies::new());
    let (created, claimed) = (Moments::default(), Moments::default());
    let done = Arc::new(AtomicBool::new(false));
    let mut working = JoinSet::new();
    for _ in 0..runners {
        let worker = Worker::open(server.address, &runner, &bodies).await?;
        working.spawn(attend(worker, claimed.clone(), done.clone()));
    }
    let every = Duration::from_secs_f64(CREATORS as f64 / rate);
    let mut creating = JoinSet::new();
    for number in 0..CREATORS {
        let mut worker = Worker::open(server.address, &runner, &bodies).await?;
        let created = created.clone();
        creating.spawn(async move {
            let start = tokio::time::Instant::now() + every.mul_f64(number as f64 / CREATORS as f64);
            for turn in 0..runs / CREATORS {
                tokio::time::sleep_until(start + every * turn as u32).await;
                let (run, _) = worker.create().await?;
                note(&created, &run);
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = creating.join_next().await {
        done??;
    }
    // The last ones are on their way.
    for _ in 0..100 {
        if lock(&claimed).len() >= lock(&created).len() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    done.store(true, Ordering::Relaxed);
    // What they have claimed they finish: nothing is left for whoever measures next.
    while let Some(ended) = working.join_next().await {
        ended??;
    }
    let (created, claimed) = (lock(&created), lock(&claimed));
    let mut latencies = Vec::with_capacity(created.len());
    for (run, moment) in created.iter() {
        let got = claimed.get(run).with_context(|| format!("{run} was never claimed"))?;
        latencies.push(got.saturating_duration_since(*moment).as_secs_f64());
    }
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

/// Works on whatever comes, until all is done.
async fn attend(mut worker: Worker, claimed: Moments, done: Arc<AtomicBool>) -> Result<()> {
    while !done.load(Ordering::Relaxed) {
        let Some(found) = worker.claim(CLAIM_WAIT).await? else { continue };
        note(&claimed, &found.run);
        worker.perform(&found).await?;
    }
    Ok(())
}

fn note(moments: &Moments, run: &str) {
    lock(moments).insert(run.to_owned(), Instant::now());
}

fn lock(moments: &Moments) -> std::sync::MutexGuard<'_, HashMap<String, Instant>> {
    moments.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The latency that a share of all is below.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

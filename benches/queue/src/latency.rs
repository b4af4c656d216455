//! Dispatch latency: the time from the response to a run's creation to the response to its claim.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use crate::load::{Worker, register};
use crate::server::Server;
use crate::work::Bodies;

/// The length of a runner's long poll.
const CLAIM_WAIT: Duration = Duration::from_secs(2);

/// Connections that create runs, spread evenly over time.
const CREATORS: usize = 8;

/// Times by run id.
type Times = Arc<Mutex<HashMap<String, Instant>>>;

/// Creates `rate` runs per second and returns the dispatch latencies in seconds, smallest first.
pub(crate) async fn measure(server: &Server, runners: usize, rate: f64, runs: usize) -> Result<Vec<f64>> {
    let runner = register(server.address).await?;
    let bodies = Arc::new(Bodies::new());
    let (created, claimed) = (Times::default(), Times::default());
    let done = Arc::new(AtomicBool::new(false));
    let mut working = JoinSet::new();
    for _ in 0..runners {
        let worker = Worker::open(server.address, &runner, &bodies).await?;
        working.spawn(claim_until_done(worker, claimed.clone(), done.clone()));
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
                record(&created, &run);
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = creating.join_next().await {
        done??;
    }
    // Waits for the claims of the last runs.
    for _ in 0..100 {
        if lock(&claimed).len() >= lock(&created).len() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    done.store(true, Ordering::Relaxed);
    // The workers finish their claimed runs, so that none is left for the next measurement.
    while let Some(ended) = working.join_next().await {
        ended??;
    }
    let (created, claimed) = (lock(&created), lock(&claimed));
    let mut latencies = Vec::with_capacity(created.len());
    for (run, created_at) in created.iter() {
        let claimed_at = claimed.get(run).with_context(|| format!("{run} was never claimed"))?;
        latencies.push(claimed_at.saturating_duration_since(*created_at).as_secs_f64());
    }
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

/// Claims and performs runs until `done`.
async fn claim_until_done(mut worker: Worker, claimed: Times, done: Arc<AtomicBool>) -> Result<()> {
    while !done.load(Ordering::Relaxed) {
        let Some(found) = worker.claim(CLAIM_WAIT).await? else { continue };
        record(&claimed, &found.run);
        worker.perform(&found).await?;
    }
    Ok(())
}

fn record(times: &Times, run: &str) {
    lock(times).insert(run.to_owned(), Instant::now());
}

fn lock(times: &Times) -> std::sync::MutexGuard<'_, HashMap<String, Instant>> {
    times.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the value below which a share of the sorted values lies.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

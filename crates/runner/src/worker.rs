//! Claims runs from a coordinator and drives as many of them concurrently as the worker has slots.
//!
//! - `registration` registers the worker, again after an outage; `claim_loop` polls for assignments.
//! - `attempt_executor` performs an assignment, `active_attempts` lists those in progress, `heartbeat` renews
//!   their leases.

mod active_attempts;
mod attempt_executor;
mod claim_loop;
mod heartbeat;
mod registration;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipform_api::{AttemptRef, Claims, EncodedAssignment, RunnerApi};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::drive::{Progress, StopSignal};
use crate::error::Error;
use crate::resources::ResourceProvider;
use active_attempts::ActiveAttempts;
use attempt_executor::{AttemptExecutor, AttemptFailure};
use claim_loop::ClaimPoll;
use registration::Registration;

/// Time limit of a shutdown, in which the worker releases its runs. Runs that are not released return to the
/// queue when their lease expires.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// Part of that time that aborted tasks may take to end. The worker does not wait longer, because a released
/// attempt's token is revoked.
const ABORT_TIME_MAX: Duration = Duration::from_secs(1);

/// Settings of a worker.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The worker's name, shown to people.
    pub name: String,
    /// Number of runs that it drives concurrently; at least 1.
    pub slots: usize,
    /// Details for the list of runners, such as version and backends.
    pub details: Value,
    /// The id from an earlier registration; `None` for a new worker.
    pub runner_id: Option<String>,
    /// Duration of one long poll for assignments, at most four seconds: a shutdown waits for the answer,
    /// which may contain assignments.
    pub claim_wait: Duration,
}

/// A runner that claims its runs from a coordinator.
pub struct Worker {
    executor: Arc<AttemptExecutor>,
    registration: Arc<Registration>,
    active: Arc<ActiveAttempts>,
    slots: usize,
    claim_wait: Duration,
    running: JoinSet<()>,
    /// The attempt that each task drives.
    tasks: HashMap<Id, AttemptRef>,
    /// Tells the claim loop to stop.
    closing: watch::Sender<bool>,
}

impl Worker {
    /// Creates a worker. It contacts the coordinator when [`Worker::run`] is called.
    pub fn new(
        api: Arc<dyn RunnerApi>,
        resources: Arc<dyn ResourceProvider>,
        progress: Arc<dyn Progress>,
        options: WorkerOptions,
    ) -> Worker {
        let WorkerOptions { name, slots, details, runner_id, claim_wait } = options;
        let slots = slots.max(1);
        Worker {
            registration: Arc::new(Registration::new(api.clone(), name, slots, details, runner_id)),
            executor: Arc::new(AttemptExecutor::new(api, resources, progress)),
            active: Arc::default(),
            slots,
            claim_wait,
            running: JoinSet::new(),
            tasks: HashMap::new(),
            closing: watch::Sender::new(false),
        }
    }

    /// Returns a watch on the number of attempts in progress.
    pub fn attempts(&self) -> watch::Receiver<usize> {
        self.active.count()
    }

    /// Works until `shutdown` completes, then releases its runs.
    ///
    /// # Errors
    /// Returns an error when the coordinator rejects the first registration, or a background task panics. An
    /// unreachable coordinator is retried.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let mut shutdown = pin!(shutdown);
        tokio::select! {
            biased;
            () = &mut shutdown => return Ok(()),
            registered = self.registration.register_first() => registered?,
        }
        // A `JoinSet` aborts the task when this future is dropped.
        let mut heartbeats = JoinSet::new();
        heartbeats.spawn(heartbeat::send_heartbeats(self.registration.clone(), self.active.clone()));
        let mut pending_claim: Option<JoinHandle<Claims>> = None;
        let result = loop {
            let free = self.slots.saturating_sub(self.running.len());
            if pending_claim.is_none() && free > 0 {
                pending_claim = Some(tokio::spawn(self.claim_poll(free).next()));
            }
            tokio::select! {
                biased;
                () = &mut shutdown => break Ok(()),
                Some(joined) = self.running.join_next_with_id() => self.task_ended(joined),
                claims = next_claims(&mut pending_claim) => {
                    pending_claim = None;
                    match claims {
                        Ok(claims) => self.start(claims.claims, free),
                        Err(error) => break Err(Error::TaskFailed(error.to_string())),
                    }
                }
                // The heartbeat task never ends by itself; without it every lease would expire.
                Some(Err(error)) = heartbeats.join_next() => break Err(Error::TaskFailed(error.to_string())),
            }
        };
        let deadline = Instant::now() + DRAIN_TIME_MAX;
        self.drain(pending_claim, deadline).await;
        drop(heartbeats);
        let _ = tokio::time::timeout_at(deadline, self.registration.leave()).await;
        result
    }

    fn claim_poll(&self, free: usize) -> ClaimPoll {
        ClaimPoll {
            registration: self.registration.clone(),
            slots: free.try_into().unwrap_or(u32::MAX),
            wait: self.claim_wait.min(claim_loop::WAIT_MAX),
            closing: self.closing.subscribe(),
        }
    }

    /// Starts the assignments. Those beyond the free slots are released.
    fn start(&mut self, claims: Vec<EncodedAssignment>, free: usize) {
        for (index, assignment) in claims.into_iter().enumerate() {
            let (attempt, stop) = (assignment.attempt(), StopSignal::default());
            if assignment.stop {
                stop.request();
            }
            let executor = self.executor.clone();
            let task = if index < free {
                self.running.spawn(executor.execute(assignment, stop.clone()))
            } else {
                tracing::error!(run_id = %attempt.run_id, "received more assignments than requested; releasing");
                self.running.spawn(executor.release(attempt.clone()))
            };
            self.track(attempt, stop, task);
        }
    }

    fn track(&mut self, attempt: AttemptRef, stop: StopSignal, task: AbortHandle) {
        self.tasks.insert(task.id(), attempt.clone());
        self.active.insert(attempt, stop, task);
    }

    /// Removes a task that has ended. A panic releases its run.
    fn task_ended(&mut self, joined: Result<(Id, ()), JoinError>) {
        let (id, error) = match joined {
            Ok((id, ())) => (id, None),
            Err(error) => (error.id(), Some(error)),
        };
        let Some(attempt) = self.tasks.remove(&id) else { return };
        self.active.remove(&attempt);
        if let Some(error) = error.filter(JoinError::is_panic) {
            let failure = AttemptFailure { reason: format!("attempt panicked: {error}"), is_permanent: true };
            let task = self.running.spawn(self.executor.clone().release_later(attempt.clone(), failure));
            self.track(attempt, StopSignal::default(), task);
        }
    }

    /// Aborts all attempts and releases their runs, until the deadline.
    async fn drain(&mut self, pending_claim: Option<JoinHandle<Claims>>, deadline: Instant) {
        self.closing.send_replace(true);
        self.running.abort_all();
        let aborted = async {
            while let Some(joined) = self.running.join_next_with_id().await {
                // A task that ended by itself has nothing left to release.
                if let (Ok((id, ())), tasks) = (joined, &mut self.tasks)
                    && let Some(attempt) = tasks.remove(&id)
                {
                    self.active.remove(&attempt);
                }
            }
        };
        let _ = tokio::time::timeout(ABORT_TIME_MAX, aborted).await;
        let mut releasing = JoinSet::new();
        for attempt in self.active.list() {
            releasing.spawn(self.executor.clone().release(attempt));
        }
        let releases = async {
            if let Some(pending_claim) = pending_claim {
                let late = pending_claim.await.map_or_else(|_| Vec::new(), |answer| answer.claims);
                for assignment in &late {
                    releasing.spawn(self.executor.clone().release(assignment.attempt()));
                }
            }
            while releasing.join_next().await.is_some() {}
        };
        if tokio::time::timeout_at(deadline, releases).await.is_err() {
            tracing::warn!("shutdown timed out before all runs were released; their leases will expire");
        }
    }
}

/// Awaits the pending claim, or forever if none is pending.
async fn next_claims(pending_claim: &mut Option<JoinHandle<Claims>>) -> Result<Claims, JoinError> {
    match pending_claim {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

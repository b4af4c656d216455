//! Where one piece of work is done: it is prepared, driven, and then ended, parked or given back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipform_api::{AppendRequest, Assignment, AttemptRef, Code, RunnerApi};
use slipform_types::{EventBody, RunErrorType, RunId};
use tokio::time::Instant;

use crate::attempt::{Attempt, ended};
use crate::backoff::{Backoff, insist};
use crate::drive::{Driven, Progress, StopSignal, drive};
use crate::error::Error;
use crate::job::{Job, ResourceProvider};
use crate::run_context::RunContext;

/// The longest that a run is kept which cannot be worked on, before it is given back: it would come again at once.
const TROUBLE_WAIT_MAX: Duration = Duration::from_secs(30);

/// How often a run may break its runner, or say what the coordinator does not take. One more time would cost the same
/// calls again and lead to the same end, so that the run ends as a failure.
const BREAKS_MAX: u32 = 5;

/// How often a run may be given back for whatever reason, such as a backend that this runner has not: by then half an
/// hour has passed, and no other runner had more luck.
const TROUBLES_OF_RUN_MAX: u32 = 60;

/// Runs whose troubles are remembered. Beyond it all are forgotten, and waits begin short again.
const TROUBLES_MAX: usize = 1024;

/// How long it is tried to give a run back. By then its lease has expired.
const RELEASE_PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct AttemptExecutor {
    api: Arc<dyn RunnerApi>,
    resources: Arc<dyn ResourceProvider>,
    progress: Arc<dyn Progress>,
    /// What was wrong with runs that could not be worked on.
    troubles: Mutex<HashMap<RunId, AttemptFailures>>,
}

/// What was wrong with a run so far.
#[derive(Debug, Clone, Default)]
struct AttemptFailures {
    /// How often something was.
    count: u32,
    /// How often it was the run's own doing.
    breaks: u32,
    /// The last of it.
    last: String,
}

/// Why a run is given back.
#[derive(Debug, Clone)]
pub(super) struct AttemptFailure {
    pub(super) reason: String,
    /// Whether any other runner would fare the same.
    pub(super) is_break: bool,
}

impl From<Error> for AttemptFailure {
    fn from(error: Error) -> AttemptFailure {
        let is_break = match &error {
            Error::Coordinator(refusal) => !refusal.code.is_passing(),
            // A journal that cannot be folded here can be folded nowhere.
            Error::Engine(_) | Error::Stuck => true,
            _ => false,
        };
        AttemptFailure { reason: error.whole(), is_break }
    }
}

impl AttemptExecutor {
    pub(super) fn new(
        api: Arc<dyn RunnerApi>,
        resources: Arc<dyn ResourceProvider>,
        progress: Arc<dyn Progress>,
    ) -> AttemptExecutor {
        AttemptExecutor { api, resources, progress, troubles: Mutex::default() }
    }

    /// Does a piece of work as far as it can be done. Nothing of it is held afterwards.
    pub(super) async fn perform(self: Arc<Self>, work: Assignment, stop: StopSignal) {
        let attempt = AttemptRef { run_id: work.run_id.clone(), token: work.token };
        match self.work(work, &stop).await {
            Ok(()) => {
                self.troubles().remove(&attempt.run_id);
            }
            Err(Error::Stale) => {
                tracing::info!(run_id = %attempt.run_id, token = attempt.token, "the attempt is no longer ours");
            }
            Err(error) => {
                self.give_back(attempt, error.into()).await;
            }
        }
    }

    async fn work(&self, work: Assignment, stop: &StopSignal) -> Result<(), Error> {
        if let Some(reason) = self.given_up(&work.run_id) {
            return self.end(&work, reason, stop).await;
        }
        let job = Arc::new(Job::read(&work)?);
        let until = job.time_left.map(|left| Instant::now() + left);
        let attempt = Attempt::new(self.api.clone(), work.token, job.clone(), stop.clone());
        drop(work);
        let claim = match self.prepare(&job, until, stop).await {
            Ok(claim) => RunContext { until: until.or(claim.until), ..claim },
            Err(reason) => return attempt.conclude(reason).await,
        };
        match drive(&claim, &attempt, stop, &*self.progress).await {
            Ok(Driven::Parked) => attempt.park().await,
            Ok(Driven::Ended(_)) => Ok(()),
            // However it came about: the run has ended.
            Err(_) if attempt.is_over() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Ends a run that is not tried again: through the engine, which keeps what there is, or without it.
    async fn end(&self, work: &Assignment, reason: String, stop: &StopSignal) -> Result<(), Error> {
        if let Ok(job) = Job::read(work) {
            let attempt = Attempt::new(self.api.clone(), work.token, Arc::new(job), stop.clone());
            match attempt.conclude(EventBody::ToolsFailed { error: reason.clone() }).await {
                Err(Error::Engine(_) | Error::Stuck) => {}
                // What the run kept may be what is not taken.
                Err(Error::Coordinator(refusal)) if !refusal.code.is_passing() => {}
                concluded => return concluded,
            }
        }
        let events = vec![ended(RunErrorType::ToolFailed, reason, None)];
        let (run_id, token) = (work.run_id.clone(), work.token);
        let request = AppendRequest { run_id, token, number: 1, events };
        insist(RELEASE_PATIENCE, || self.api.finish(&request)).await?;
        Ok(())
    }

    /// The claim, or why the run ends without one.
    async fn prepare(
        &self,
        job: &Job,
        until: Option<Instant>,
        stop: &StopSignal,
    ) -> Result<RunContext, EventBody> {
        let deadline = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.requested() => Err(EventBody::StopRequested { partial: None }),
            () = deadline => Err(EventBody::DeadlineReached { partial: None }),
            prepared = self.resources.prepare(job) => prepared.map_err(|error| EventBody::ToolsFailed { error }),
        }
    }

    /// Gives back a run that cannot be worked on, after a while that is longer each time.
    pub(super) async fn give_back(self: Arc<Self>, attempt: AttemptRef, trouble: AttemptFailure) {
        let AttemptFailure { reason, .. } = &trouble;
        tracing::error!(run_id = %attempt.run_id, reason, "a run cannot be worked on; it is given back");
        let before = self.note(&attempt.run_id, trouble);
        tokio::time::sleep(Backoff::after(before, TROUBLE_WAIT_MAX).wait()).await;
        self.release(attempt).await;
    }

    /// Gives a run back.
    pub(super) async fn release(self: Arc<Self>, attempt: AttemptRef) {
        let run_id = &attempt.run_id;
        match insist(RELEASE_PATIENCE, || self.api.release(&attempt)).await {
            Ok(()) => tracing::info!(%run_id, "released"),
            // It has ended, or somebody else has it: there is nothing to give back.
            Err(error) if error.code == Code::StaleAttempt => tracing::debug!(%run_id, "nothing to release"),
            Err(error) => tracing::warn!(%run_id, %error, "not released; its lease will expire"),
        }
    }

    /// Notes a trouble with a run, and says how many there were before.
    fn note(&self, run: &RunId, trouble: AttemptFailure) -> u32 {
        let mut troubles = self.troubles();
        if troubles.len() >= TROUBLES_MAX {
            troubles.clear();
        }
        let known = troubles.entry(run.clone()).or_default();
        let before = known.count;
        known.count = before.saturating_add(1);
        known.breaks = known.breaks.saturating_add(trouble.is_break.into());
        known.last = trouble.reason;
        before
    }

    /// Why a run is not tried again, where that is so.
    fn given_up(&self, run: &RunId) -> Option<String> {
        let troubles = self.troubles();
        let is_hopeless =
            |known: &&AttemptFailures| known.breaks >= BREAKS_MAX || known.count >= TROUBLES_OF_RUN_MAX;
        let known = troubles.get(run).filter(is_hopeless)?;
        Some(format!("the run broke off {} times, the last time because: {}", known.count, known.last))
    }

    fn troubles(&self) -> MutexGuard<'_, HashMap<RunId, AttemptFailures>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

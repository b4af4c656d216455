//! Performs one assignment: prepares and drives it, then finishes, parks or releases it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipform_api::{AppendRequest, AttemptRef, Code, EncodedAssignment, JournalRequest, RunnerApi};
use slipform_types::{EventBody, RunErrorType, RunId};

use crate::attempt::{Attempt, failed_end, retry};
use crate::backoff::Backoff;
use crate::drive::{DriveOutcome, Progress, StopSignal, drive};
use crate::error::Error;
use crate::resources::{ResourceProvider, Resources};
use crate::run_context::RunContext;

/// Longest delay before a failed run is released, because the coordinator would assign it again at once.
const RELEASE_DELAY_MAX: Duration = Duration::from_secs(30);

/// Number of permanent failures after which a run ends as failed. Another attempt would repeat the same calls
/// with the same result.
const PERMANENT_FAILURES_MAX: u32 = 5;

/// Number of failures of any kind after which a run ends as failed, such as a missing backend. At the longest
/// delay this takes half an hour, in which no other runner succeeded.
const FAILURES_MAX: u32 = 60;

/// Maximum number of runs whose failures are remembered. Beyond it all are forgotten, and delays start short
/// again.
const FAILED_RUNS_MAX: usize = 1024;

/// Time limit for retries of reading a page of a journal.
const JOURNAL_TIME_MAX: Duration = Duration::from_secs(60);

/// Time limit for retries of a release. By then the lease has expired.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(30);

pub(super) struct AttemptExecutor {
    api: Arc<dyn RunnerApi>,
    resources: Arc<dyn ResourceProvider>,
    progress: Arc<dyn Progress>,
    /// Failures of runs on this worker.
    failures: Mutex<HashMap<RunId, AttemptFailures>>,
}

/// The failures of one run.
#[derive(Debug, Clone, Default)]
struct AttemptFailures {
    /// Number of failures of any kind.
    count: u32,
    /// Number of permanent failures.
    permanent_count: u32,
    /// Reason of the last failure.
    last: String,
}

/// The reason why a run is released.
#[derive(Debug, Clone)]
pub(super) struct AttemptFailure {
    pub(super) reason: String,
    /// True if every runner would fail the same way.
    pub(super) is_permanent: bool,
}

impl From<Error> for AttemptFailure {
    fn from(error: Error) -> AttemptFailure {
        let is_permanent = match &error {
            Error::Coordinator(refusal) => !refusal.code.is_passing(),
            // A journal that this engine cannot replay cannot be replayed by another runner either. One that it cannot
            // decode may be of a newer version, which another runner may have.
            Error::Engine(_) | Error::NoNextAction => true,
            _ => false,
        };
        AttemptFailure { reason: error.with_sources(), is_permanent }
    }
}

impl AttemptExecutor {
    pub(super) fn new(
        api: Arc<dyn RunnerApi>,
        resources: Arc<dyn ResourceProvider>,
        progress: Arc<dyn Progress>,
    ) -> AttemptExecutor {
        AttemptExecutor { api, resources, progress, failures: Mutex::default() }
    }

    /// Performs an assignment. Afterwards this worker no longer owns the run.
    pub(super) async fn execute(self: Arc<Self>, assignment: EncodedAssignment, stop: StopSignal) {
        let reference = assignment.attempt();
        let performed = match self.exhausted_reason(&reference.run_id) {
            Some(reason) => self.end(assignment, reason, stop).await,
            None => self.perform(assignment, stop).await,
        };
        match performed {
            Ok(()) => {
                self.failures().remove(&reference.run_id);
            }
            Err(Error::Stale) => {
                tracing::info!(run_id = %reference.run_id, token = reference.token, "attempt is stale; dropping it");
            }
            Err(error) => {
                self.release_later(reference, error.into()).await;
            }
        }
    }

    async fn perform(&self, mut assignment: EncodedAssignment, stop: StopSignal) -> Result<(), Error> {
        self.complete_journal(&mut assignment).await?;
        let assignment = Arc::new(assignment.decode()?);
        let attempt = Attempt::new(self.api.clone(), assignment.clone(), stop);
        let resources = match self.prepare(&attempt).await {
            Ok(resources) => resources,
            Err(reason) => return attempt.conclude(reason).await,
        };
        let context = RunContext { assignment, resources };
        match drive(&context, &attempt, &*self.progress).await {
            Ok(DriveOutcome::Parked) => attempt.park().await,
            Ok(DriveOutcome::Ended(_)) => Ok(()),
            // The coordinator acknowledged the end of the run, so the error has no effect.
            Err(_) if attempt.is_over() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads the rest of a long journal, page by page. Heartbeats renew the lease meanwhile.
    async fn complete_journal(&self, assignment: &mut EncodedAssignment) -> Result<(), Error> {
        while let Some(after) = assignment.journal_next {
            let AttemptRef { run_id, token } = assignment.attempt();
            let request = JournalRequest { run_id, token, after };
            let page = retry(JOURNAL_TIME_MAX, || self.api.journal(&request)).await?;
            assignment.journal.extend(page.events);
            // A page without events would repeat forever.
            assignment.journal_next = page.next.filter(|next| *next > after);
        }
        Ok(())
    }

    /// Ends a run that is not retried: through the engine, which keeps partial results, or without it.
    async fn end(
        &self,
        mut assignment: EncodedAssignment,
        reason: String,
        stop: StopSignal,
    ) -> Result<(), Error> {
        let AttemptRef { run_id, token } = assignment.attempt();
        self.complete_journal(&mut assignment).await?;
        if let Ok(assignment) = assignment.decode() {
            let attempt = Attempt::new(self.api.clone(), Arc::new(assignment), stop);
            match attempt.conclude(EventBody::ToolsFailed { error: reason.clone() }).await {
                Err(Error::Engine(_) | Error::NoNextAction) => {}
                // The partial results may be what the coordinator rejects; finish without them.
                Err(Error::Coordinator(refusal)) if !refusal.code.is_passing() => {}
                concluded => return concluded,
            }
        }
        let events = vec![failed_end(RunErrorType::ToolFailed, reason, None)];
        let request = AppendRequest { run_id, token, number: 1, events, progress: None };
        retry(RELEASE_TIME_MAX, || self.api.finish(&request)).await?;
        Ok(())
    }

    /// Prepares the resources, or returns the event that ends the run.
    async fn prepare(&self, attempt: &Attempt) -> Result<Resources, EventBody> {
        tokio::select! {
            biased;
            interruption = attempt.interrupted() => Err(interruption.event(None)),
            prepared = self.resources.prepare(attempt.assignment()) => {
                prepared.map_err(|error| EventBody::ToolsFailed { error })
            }
        }
    }

    /// Releases a run that failed on this worker, after a delay that grows with each failure.
    pub(super) async fn release_later(self: Arc<Self>, attempt: AttemptRef, failure: AttemptFailure) {
        let AttemptFailure { reason, .. } = &failure;
        tracing::error!(run_id = %attempt.run_id, reason, "run failed on this runner; releasing it");
        let earlier = self.record_failure(&attempt.run_id, failure);
        tokio::time::sleep(Backoff::after(earlier, RELEASE_DELAY_MAX).wait()).await;
        self.release(attempt).await;
    }

    /// Releases a run to the queue, with retries.
    pub(super) async fn release(self: Arc<Self>, attempt: AttemptRef) {
        let run_id = &attempt.run_id;
        match retry(RELEASE_TIME_MAX, || self.api.release(&attempt)).await {
            Ok(()) => tracing::info!(%run_id, "released"),
            // The run has ended, or another attempt owns it.
            Err(error) if error.code == Code::StaleAttempt => tracing::debug!(%run_id, "nothing to release"),
            Err(error) => tracing::warn!(%run_id, %error, "not released; its lease will expire"),
        }
    }

    /// Records a failure and returns the number of earlier ones.
    fn record_failure(&self, run: &RunId, failure: AttemptFailure) -> u32 {
        let mut failures = self.failures();
        if failures.len() >= FAILED_RUNS_MAX {
            failures.clear();
        }
        let known = failures.entry(run.clone()).or_default();
        let before = known.count;
        known.count = before.saturating_add(1);
        known.permanent_count = known.permanent_count.saturating_add(failure.is_permanent.into());
        known.last = failure.reason;
        before
    }

    /// Returns the error message if the run must not be retried.
    fn exhausted_reason(&self, run: &RunId) -> Option<String> {
        let failures = self.failures();
        let is_exhausted = |known: &&AttemptFailures| {
            known.permanent_count >= PERMANENT_FAILURES_MAX || known.count >= FAILURES_MAX
        };
        let known = failures.get(run).filter(is_exhausted)?;
        Some(format!("run failed {} times; last error: {}", known.count, known.last))
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<RunId, AttemptFailures>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

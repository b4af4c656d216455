//! Reads, awaits and stops runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use slipform_api::{Code, Error, RunPage, RunView, RunsQuery};
use slipform_store::{RunFilter, RunRecord};
use slipform_types::{Blueprint, EventBody, EventKind, RunId, RunOverrides, RunStatus, SessionId};
use tokio::time::Instant;

use super::paging::{page, time};
use super::submit::stored_key;
use super::{App, errors, views};

/// Polling interval while waiting for a run, because notifications can be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

impl App {
    /// Returns a run, with its result once it has ended.
    ///
    /// # Errors
    /// Returns `RunNotFound` for an unknown id.
    pub async fn run(&self, run: &RunId) -> Result<RunView, Error> {
        let details = self.store().run_details(run).await.map_err(errors::store)?;
        let details = details.filter(|details| self.may_read_run(&details.run));
        details.ok_or_else(|| no_run(run)).and_then(views::run)
    }

    /// Returns an ended run with its result.
    ///
    /// # Errors
    /// Returns `RunNotFound`, or `NotFinished` if the run has not ended.
    pub async fn run_result(&self, run: &RunId) -> Result<RunView, Error> {
        let view = self.run(run).await?;
        if view.result.is_some() { Ok(view) } else { Err(not_finished(run, view.status)) }
    }

    /// Returns a run without its result.
    pub(super) async fn record(&self, run: &RunId) -> Result<RunRecord, Error> {
        let record = self.store().run(run).await.map_err(errors::store)?;
        record.filter(|record| self.may_read_run(record)).ok_or_else(|| no_run(run))
    }

    /// Whether the caller may read a run: the one to whom its session belongs.
    fn may_read_run(&self, record: &RunRecord) -> bool {
        self.authority.may_read(record.owner.as_deref())
    }

    /// Lists runs, newest first.
    ///
    /// # Errors
    /// Returns `InvalidRequest` for an invalid page, and fails if the store is unavailable.
    pub async fn runs(&self, query: RunsQuery) -> Result<RunPage, Error> {
        let page = page(query.after, query.limit)?;
        let filter = RunFilter {
            session_id: query.session_id,
            agent_name: query.agent_name,
            status: query.status,
            parent_run_id: query.parent_run_id,
            owner: self.authority.only_owner().map(str::to_owned),
            backend: query.backend,
            error_type: query.error_type,
            verdict: query.verdict,
            idempotency_key: query.idempotency_key.map(|key| stored_key(&key, self.authority.token_id())),
            created_after: time("created_after", query.created_after.as_deref())?,
            created_before: time("created_before", query.created_before.as_deref())?,
        };
        let listed = self.store().runs(filter, page).await.map_err(errors::store)?;
        Ok(RunPage { runs: listed.items.into_iter().map(views::summary).collect(), next: listed.next })
    }

    /// Waits until a run has ended or the time limit passes, and returns the run.
    ///
    /// # Errors
    /// Returns `RunNotFound` for an unknown id.
    pub async fn wait(&self, run: &RunId, limit: Duration) -> Result<RunView, Error> {
        let record = self.record(run).await?;
        if record.status.is_ended() {
            return self.run(run).await;
        }
        self.wait_in(&record.session_id, run, limit).await
    }

    /// Waits until a run of this session has ended or the time limit passes, and returns the run.
    pub(crate) async fn wait_in(
        &self,
        session: &SessionId,
        run: &RunId,
        limit: Duration,
    ) -> Result<RunView, Error> {
        let until = Instant::now() + limit;
        let mut subscription = self.tail().subscribe(session);
        loop {
            if self.record(run).await?.status.is_ended() || Instant::now() >= until {
                return self.run(run).await;
            }
            let ended = async {
                while let Ok(event) = subscription.recv().await {
                    if event.run_id == *run && event.kind == EventKind::RunCompleted {
                        return true;
                    }
                }
                // The subscription lags behind.
                false
            };
            let pause = until.min(Instant::now() + POLL_INTERVAL);
            if tokio::time::timeout_at(pause, ended).await == Ok(true) {
                return self.run(run).await;
            }
        }
    }

    /// Returns the time limit of a run, from its request or its agent.
    ///
    /// # Errors
    /// Returns `RunNotFound` for an unknown id.
    pub async fn time_limit(&self, run: &RunId) -> Result<Option<Duration>, Error> {
        let (blueprint, overrides) = self.start_of_run(run).await?;
        let seconds = overrides.limits(&blueprint.limits).timeout_seconds;
        Ok(seconds.map(|seconds| Duration::from_secs(seconds.into())))
    }

    /// Returns the settings that the caller chose for a run.
    pub(super) async fn overrides_of_run(&self, run: &RunId) -> Result<RunOverrides, Error> {
        Ok(self.start_of_run(run).await?.1)
    }

    async fn start_of_run(&self, run: &RunId) -> Result<(Arc<Blueprint>, RunOverrides), Error> {
        let start = self.store().run_start(run).await.map_err(errors::store)?;
        let start = start.ok_or_else(|| no_run(run))?;
        match serde_json::from_str(&start.body) {
            Ok(EventBody::RunStart { blueprint, overrides, .. }) => Ok((blueprint, overrides)),
            _ => Err(Error::new(Code::Internal, format!("run {run} has no `run_start`"))),
        }
    }

    /// Asks a run to stop.
    ///
    /// # Errors
    /// Returns `RunNotFound` for an unknown id.
    pub async fn stop_run(&self, run: &RunId) -> Result<RunView, Error> {
        if self.authority.only_owner().is_some() {
            self.record(run).await?;
        }
        let record = self.store().stop(run).await.map_err(errors::store)?;
        // A run without a runner is queued so that a runner ends it.
        self.inner.work_signal.notify(1);
        match record {
            Some(record) => {
                tracing::info!(run_id = %run, status = record.status.name(), "stop requested");
                self.run(run).await
            }
            None => Err(no_run(run)),
        }
    }
}

pub(super) fn not_finished(run: &RunId, status: RunStatus) -> Error {
    let status = status.name();
    let message = format!("run {run} has not ended; its status is `{status}`");
    Error::new(Code::NotFinished, message).with(json!({"run_id": run, "status": status}))
}

fn no_run(run: &RunId) -> Error {
    Error::new(Code::RunNotFound, format!("run {run} not found"))
}

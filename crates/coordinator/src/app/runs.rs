//! Runs: looking, waiting, stopping.

use std::time::Duration;

use serde_json::json;
use slipform_api::{Code, Error, RunPage, RunView};
use slipform_store::{Page, RunFilter, RunRecord};
use slipform_types::{EventBody, RunId, RunStatus};
use tokio::time::Instant;

use super::{App, errors, views};

/// How often a run that is waited for is looked at, whatever was told: telling is only a hint.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl App {
    /// A run, with what came of it where it has ended.
    ///
    /// # Errors
    /// When there is none.
    pub async fn run(&self, run: &RunId) -> Result<RunView, Error> {
        let finished = self.store().run_details(run).await.map_err(errors::store)?;
        finished.ok_or_else(|| no_run(run)).and_then(views::run)
    }

    /// A run that has ended, with what came of it.
    ///
    /// # Errors
    /// When there is none, or it has not ended.
    pub async fn run_result(&self, run: &RunId) -> Result<RunView, Error> {
        let view = self.run(run).await?;
        if view.result.is_some() { Ok(view) } else { Err(not_finished(run, view.status)) }
    }

    /// A run as it stands, without what came of it.
    pub(super) async fn record(&self, run: &RunId) -> Result<RunRecord, Error> {
        self.store().run(run).await.map_err(errors::store)?.ok_or_else(|| no_run(run))
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn runs(&self, filter: RunFilter, page: Page) -> Result<RunPage, Error> {
        let listed = self.store().runs(filter, page).await.map_err(errors::store)?;
        Ok(RunPage { runs: listed.items.into_iter().map(views::summary).collect(), next: listed.next })
    }

    /// A run when it has ended, or as it stands when the time is up.
    ///
    /// # Errors
    /// When there is none.
    pub async fn wait(&self, run: &RunId, limit: Duration) -> Result<RunView, Error> {
        let until = Instant::now() + limit;
        let record = self.record(run).await?;
        if record.status.is_ended() || limit.is_zero() {
            return self.run(run).await;
        }
        let mut following = self.tail().follow(&record.session_id);
        loop {
            if self.record(run).await?.status.is_ended() || Instant::now() >= until {
                return self.run(run).await;
            }
            let told = async {
                // A follower that is too far behind looks for itself.
                while let Ok(event) = following.recv().await {
                    if event.run_id == *run && event.body.starts_with("{\"event_type\":\"run_completed\"") {
                        break;
                    }
                }
            };
            let pause = until.min(Instant::now() + LOOK_EVERY);
            let _ = tokio::time::timeout_at(pause, told).await;
        }
    }

    /// How long a run may take by what its agent says.
    ///
    /// # Errors
    /// When there is none.
    pub async fn time_limit(&self, run: &RunId) -> Result<Option<Duration>, Error> {
        let start = self.store().run_start(run).await.map_err(errors::store)?;
        let start = start.ok_or_else(|| no_run(run))?;
        match serde_json::from_str(&start.body) {
            Ok(EventBody::RunStart { blueprint, .. }) => {
                Ok(blueprint.limits.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into())))
            }
            _ => Err(Error::new(Code::Internal, format!("the run {run} has no beginning"))),
        }
    }

    /// Asks a run to stop.
    ///
    /// # Errors
    /// When there is none.
    pub async fn stop_run(&self, run: &RunId) -> Result<RunView, Error> {
        let record = self.store().stop(run).await.map_err(errors::store)?;
        // Where it waits for nobody, a runner ends it.
        self.inner.work.notify(1);
        match record {
            Some(_) => self.run(run).await,
            None => Err(no_run(run)),
        }
    }
}

pub(super) fn not_finished(run: &RunId, status: RunStatus) -> Error {
    let status = status.name();
    let message = format!("the run {run} has not ended: it is {status}");
    Error::new(Code::NotFinished, message).with(json!({"run_id": run, "status": status}))
}

fn no_run(run: &RunId) -> Error {
    Error::new(Code::RunNotFound, format!("there is no run {run}"))
}

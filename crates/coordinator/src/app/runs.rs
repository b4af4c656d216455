//! Runs: looking, waiting, stopping.

use std::time::Duration;

use formwork_api::{Code, Error, RunPage, RunView};
use formwork_store::{Page, RunFilter};
use formwork_types::{Body, RunId};
use tokio::time::Instant;

use super::{App, errors, views};

/// How often a run that is waited for is looked at, whatever was told: telling is only a hint.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl App {
    /// A run.
    ///
    /// # Errors
    /// When there is none.
    pub async fn run(&self, run: &RunId) -> Result<RunView, Error> {
        let record = self.store().run(run).await.map_err(errors::store)?;
        record.map(views::run).ok_or_else(|| no_run(run))
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn runs(&self, filter: RunFilter, page: Page) -> Result<RunPage, Error> {
        let listed = self.store().runs(filter, page).await.map_err(errors::store)?;
        Ok(RunPage { runs: listed.items.into_iter().map(views::run).collect(), next: listed.next })
    }

    /// A run when it has ended, or as it stands when the time is up.
    ///
    /// # Errors
    /// When there is none.
    pub async fn wait(&self, run: &RunId, limit: Duration) -> Result<RunView, Error> {
        let until = Instant::now() + limit;
        let view = self.run(run).await?;
        if view.status.is_ended() || limit.is_zero() {
            return Ok(view);
        }
        let mut following = self.tail().follow(&view.session_id);
        loop {
            let view = self.run(run).await?;
            if view.status.is_ended() || Instant::now() >= until {
                return Ok(view);
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
        let start = self.store().start_of(run).await.map_err(errors::store)?;
        let start = start.ok_or_else(|| no_run(run))?;
        match serde_json::from_str(&start.body) {
            Ok(Body::RunStart { blueprint, .. }) => {
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
        self.inner.work.ring(1);
        record.map(views::run).ok_or_else(|| no_run(run))
    }
}

fn no_run(run: &RunId) -> Error {
    Error::new(Code::RunNotFound, format!("there is no run {run}"))
}

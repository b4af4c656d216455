//! Health, runners, backends and statistics.

use std::collections::BTreeMap;
use std::time::Duration;

use slipform_api::{BackendView, Error, FileProblems, Problem, Readiness, RunnerView, StatsQuery, StatsRow};
use slipform_store::StatsFilter;
use slipform_types::timestamp;
use tokio::time::Instant;

use super::runner::OWN_RUNS_ONLY;
use super::{App, errors, views};
use crate::registry::FromFile;

/// A runner counts as present if it was seen within this time.
const RUNNER_SEEN_MS: i64 = 60_000;

/// Lifetime of a ping result. A ping writes to the database, and the endpoint is public.
const PING_INTERVAL: Duration = Duration::from_secs(1);

impl App {
    /// Checks the database and collects file problems.
    pub async fn readiness(&self, draining: bool) -> Readiness {
        let database = self.ping().await;
        let runners = match &database {
            Ok(()) => {
                let runners = self.store().runners(RUNNER_SEEN_MS).await.unwrap_or_default();
                runners.iter().filter(|runner| runner.details[OWN_RUNS_ONLY] != true).count()
            }
            Err(_) => 0,
        };
        let warning = "no runner is connected: runs wait in the queue; start one with `slipform runner --coordinator URL`";
        let has_no_runner = database.is_ok() && runners == 0;
        let files = self.registry().files();
        let mut problems: Vec<FileProblems> = Vec::new();
        problems.extend(files.agents.iter().filter_map(|(name, file)| of_file(name, file)));
        problems.extend(files.schemas.iter().filter_map(|(name, file)| of_file(name, file)));
        problems.extend(files.folder_error.iter().map(|problem| FileProblems {
            name: String::new(),
            path: String::new(),
            problems: vec![Problem::of_whole(problem.clone())],
            in_force: true,
        }));
        Readiness {
            ready: database.is_ok() && !draining,
            database: database.err().unwrap_or_else(|| "ok".to_owned()),
            draining,
            runners,
            warnings: has_no_runner.then(|| warning.to_owned()).into_iter().collect(),
            files: problems,
        }
    }

    /// Pings the database, or returns a recent result. A success does not outlast a failed write. Concurrent callers
    /// share one ping.
    async fn ping(&self) -> Result<(), String> {
        let mut last = self.inner.last_ping.lock().await;
        if let Some((at, answer)) = last.as_ref()
            && at.elapsed() < PING_INTERVAL
            && (answer.is_err() || !self.store().has_failed_write())
        {
            return answer.clone();
        }
        let answer = self.store().ping().await.map_err(|error| error.to_string());
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Returns the runners seen in the last minute.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn runners(&self) -> Result<Vec<RunnerView>, Error> {
        let runners = self.store().runners(RUNNER_SEEN_MS).await.map_err(errors::store)?;
        let view = |runner: slipform_store::RunnerRecord| RunnerView {
            runner_id: runner.runner_id,
            name: runner.name,
            slots: runner.slots,
            working_on: runner.working_on,
            details: runner.details,
            registered_at: timestamp(runner.registered_at),
            seen_at: timestamp(runner.seen_at),
        };
        Ok(runners.into_iter().map(view).collect())
    }

    /// Returns the backends of these runners.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn backends(&self) -> Result<Vec<BackendView>, Error> {
        let mut backends: BTreeMap<(String, String, Option<String>), Vec<String>> = BTreeMap::new();
        for runner in self.runners().await? {
            for backend in runner.details["backends"].as_array().into_iter().flatten() {
                let text = |key: &str| backend[key].as_str().map(str::to_owned);
                let key = (text("name").unwrap_or_default(), text("kind").unwrap_or_default(), text("model"));
                backends.entry(key).or_default().push(runner.runner_id.clone());
            }
        }
        let view = |((name, kind, model), runners)| BackendView { name, kind, model, runners };
        Ok(backends.into_iter().map(view).collect())
    }

    /// Returns statistics of ended runs per agent and backend.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn stats(&self, query: StatsQuery) -> Result<Vec<StatsRow>, Error> {
        let owner = self.authority.only_owner().map(str::to_owned);
        let filter = StatsFilter { agent_name: query.agent, since: None, owner };
        let stats = self.store().agent_stats(filter).await.map_err(errors::store)?;
        Ok(stats.into_iter().map(views::stats).collect())
    }

    /// Returns the metrics in Prometheus text format.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn metrics_text(&self) -> Result<String, Error> {
        let counts = self.store().counts().await.map_err(errors::store)?;
        Ok(self.metrics().text(&counts, self.store().commits()))
    }
}

fn of_file<T>(name: &str, file: &FromFile<T>) -> Option<FileProblems> {
    (!file.problems.is_empty()).then(|| FileProblems {
        name: name.to_owned(),
        path: file.path.display().to_string(),
        problems: file.problems.clone(),
        in_force: file.in_force.is_some(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::registry::Registry;

    #[tokio::test]
    async fn ping_result_is_reused_within_interval() {
        let registry = Arc::new(Registry::read(Path::new("/nonexistent")));
        let app = App::open("sqlite::memory:", false, registry, super::super::AppOptions::default());
        let app = app.await.unwrap();
        for (age, expected) in [(Duration::ZERO, "unavailable"), (PING_INTERVAL, "ok")] {
            let at = Instant::now().checked_sub(age).unwrap();
            *app.inner.last_ping.lock().await = Some((at, Err("unavailable".to_owned())));
            assert_eq!(app.readiness(false).await.database, expected);
        }
    }
}

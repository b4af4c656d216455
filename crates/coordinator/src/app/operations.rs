//! Operations: whether it works, who is there, and how things go.

use std::collections::BTreeMap;
use std::time::Duration;

use slipform_api::{AgentsTrouble, BackendView, Error, Readiness, RunnerView, StatsRow};
use slipform_store::StatsFilter;
use slipform_types::timestamp;
use tokio::time::Instant;

use super::{App, errors, views};
use crate::registry::FromFile;

/// How long ago a runner may have been heard of.
const RUNNER_SEEN_MS: i64 = 60_000;

/// How long the database's answer is remembered: it costs a write, and anybody may ask.
const PING_EVERY: Duration = Duration::from_secs(1);

impl App {
    /// Whether requests can be served.
    pub async fn readiness(&self, draining: bool) -> Readiness {
        let database = self.ping().await;
        let runners = match &database {
            Ok(()) => {
                self.store().runners(RUNNER_SEEN_MS).await.map(|runners| runners.len()).unwrap_or_default()
            }
            Err(_) => 0,
        };
        let files = self.registry().files();
        let mut trouble: Vec<AgentsTrouble> = Vec::new();
        trouble.extend(files.agents.iter().filter_map(|(name, file)| of_file(name, file)));
        trouble.extend(files.schemas.iter().filter_map(|(name, file)| of_file(name, file)));
        trouble.extend(files.trouble.iter().map(|problem| AgentsTrouble {
            name: String::new(),
            path: String::new(),
            problems: vec![problem.clone()],
            in_force: true,
        }));
        Readiness {
            ready: database.is_ok() && !draining,
            database: database.err().unwrap_or_else(|| "ok".to_owned()),
            draining,
            runners,
            files: trouble,
        }
    }

    /// Whether the database answers, or did a moment ago. Those who ask at once wait for the same answer.
    async fn ping(&self) -> Result<(), String> {
        let mut last = self.inner.pinged.lock().await;
        if let Some((at, answer)) = last.as_ref()
            && at.elapsed() < PING_EVERY
        {
            return answer.clone();
        }
        let answer = self.store().ping().await.map_err(|error| error.to_string());
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Runners that were heard of lately.
    ///
    /// # Errors
    /// When the store does not answer.
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

    /// Backends that those runners have.
    ///
    /// # Errors
    /// When the store does not answer.
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

    /// How the agents did whose runs have ended, on each backend.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn stats(&self, filter: StatsFilter) -> Result<Vec<StatsRow>, Error> {
        let figures = self.store().agent_stats(filter).await.map_err(errors::store)?;
        Ok(figures.into_iter().map(views::stats).collect())
    }

    /// What a monitoring system reads.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn metrics_text(&self) -> Result<String, Error> {
        let counts = self.store().counts().await.map_err(errors::store)?;
        Ok(self.metrics().text(&counts, self.store().commits()))
    }
}

fn of_file<T>(name: &str, file: &FromFile<T>) -> Option<AgentsTrouble> {
    (!file.problems.is_empty()).then(|| AgentsTrouble {
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
    async fn the_databases_answer_is_remembered_for_a_moment() {
        let registry = Arc::new(Registry::read(Path::new("/nonexistent")));
        let app = App::open("sqlite::memory:", false, registry, super::super::AppOptions::default());
        let app = app.await.unwrap();
        for (age, expected) in [(Duration::ZERO, "away"), (PING_EVERY, "ok")] {
            let at = Instant::now().checked_sub(age).unwrap();
            *app.inner.pinged.lock().await = Some((at, Err("away".to_owned())));
            assert_eq!(app.readiness(false).await.database, expected);
        }
    }
}

//! Health, runners, backends and statistics.

use std::collections::BTreeMap;
use std::time::Duration;

use slipform_api::{
    BackendView, Code, Error, FileProblems, Interval, Problem, Readiness, RunnerView, StatsQuery, StatsRow,
    TimelineQuery, TimelineRow, ViolationsRow,
};
use slipform_store::StatsFilter;
use slipform_types::timestamp;
use tokio::time::Instant;

use super::paging::time;
use super::runner::OWN_RUNS_ONLY;
use super::{App, errors, views};
use crate::registry::FromFile;

/// A runner counts as present if it was seen within this time.
const RUNNER_SEEN_MS: i64 = 60_000;

/// Lifetime of a ping result. A ping writes to the database, and the endpoint is public.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Number of intervals if a request does not say when they begin.
const INTERVALS_DEFAULT: i64 = 24;

/// Maximum number of intervals.
const INTERVALS_MAX: i64 = 1_000;

/// Maximum number of failed validations whose violations are counted.
const VIOLATIONS_MAX: i64 = 5_000;

/// Maximum number of places with violations.
const PLACES_MAX: usize = 500;

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
        let mut backends: BTreeMap<(String, String, Option<String>), BackendView> = BTreeMap::new();
        for runner in self.runners().await? {
            for backend in runner.details["backends"].as_array().into_iter().flatten() {
                let text = |key: &str| backend[key].as_str().map(str::to_owned);
                let key = (text("name").unwrap_or_default(), text("kind").unwrap_or_default(), text("model"));
                let (name, kind, model) = key.clone();
                let view = backends.entry(key).or_insert_with(|| BackendView {
                    name,
                    kind,
                    model,
                    runners: Vec::new(),
                    probe: None,
                });
                view.runners.push(runner.runner_id.clone());
                let probe = backend.get("probe").filter(|probe| probe.is_object());
                view.probe = view.probe.take().or_else(|| probe.cloned());
            }
        }
        Ok(backends.into_values().collect())
    }

    /// Returns statistics of ended runs per agent and backend.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn stats(&self, query: StatsQuery) -> Result<Vec<StatsRow>, Error> {
        let filter = self.stats_filter(query)?;
        let stats = self.store().agent_stats(filter).await.map_err(errors::store)?;
        Ok(stats.into_iter().map(views::stats).collect())
    }

    fn stats_filter(&self, query: StatsQuery) -> Result<StatsFilter, Error> {
        Ok(StatsFilter {
            agent_name: query.agent,
            since: time("since", query.since.as_deref())?,
            until: time("until", query.until.as_deref())?,
            owner: self.authority.only_owner().map(str::to_owned),
        })
    }

    /// Returns figures of ended runs per interval, oldest first. Intervals in which no run ended have zeros.
    ///
    /// # Errors
    /// Returns `InvalidRequest` for invalid times and too many intervals, and fails if the store is unavailable.
    pub async fn timeline(&self, query: TimelineQuery) -> Result<Vec<TimelineRow>, Error> {
        let TimelineQuery { agent, since, until, interval } = query;
        let filter = self.stats_filter(StatsQuery { agent, since, until })?;
        let length = match interval.unwrap_or_default() {
            Interval::Hour => 3_600_000,
            Interval::Day => 86_400_000,
        };
        let now = self.store().now().await.map_err(errors::store)?;
        let until = filter.until.unwrap_or(now);
        let since = filter.since.unwrap_or_else(|| (until - INTERVALS_DEFAULT * length).max(0));
        let first = since / length * length;
        if since > until {
            return Err(Error::new(Code::InvalidRequest, "`since` must not be after `until`"));
        }
        let count = (until - first + length - 1) / length;
        if count > INTERVALS_MAX {
            let message = format!(
                "`since` and `until` must enclose at most {INTERVALS_MAX} intervals; choose a shorter time or \
                 `interval=day`"
            );
            return Err(Error::new(Code::InvalidRequest, message));
        }
        let filter = StatsFilter { since: Some(first), until: Some(until), ..filter };
        let known = self.store().timeline(filter, length).await.map_err(errors::store)?;
        let mut known = known.into_iter().peekable();
        let rows = (0..count).map(|number| {
            let start = first + number * length;
            let figures = known.next_if(|figures| figures.start == start).unwrap_or_default();
            views::timeline(start, &figures)
        });
        Ok(rows.collect())
    }

    /// Returns how often each place violated its contract, per backend, most frequent first. Counts the newest
    /// violations only.
    ///
    /// # Errors
    /// Returns `InvalidRequest` for invalid times, and fails if the store is unavailable.
    pub async fn violations(&self, query: StatsQuery) -> Result<Vec<ViolationsRow>, Error> {
        let filter = self.stats_filter(query)?;
        let failed = self.store().failed_validations(filter, VIOLATIONS_MAX).await.map_err(errors::store)?;
        let mut counts: BTreeMap<(String, Option<String>), i64> = BTreeMap::new();
        for validation in failed {
            // The last line of a long list counts those that are left out.
            for error in validation.errors.into_iter().filter(|error| !error.starts_with("$: … and ")) {
                *counts.entry((folded_path(&error), validation.backend.clone())).or_default() += 1;
            }
        }
        let row = |((path, backend), count)| ViolationsRow { path, backend, count };
        let mut rows: Vec<ViolationsRow> = counts.into_iter().map(row).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.count));
        rows.truncate(PLACES_MAX);
        Ok(rows)
    }

    /// Returns the metrics in Prometheus text format.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn metrics_text(&self) -> Result<String, Error> {
        let counts = self.store().counts().await.map_err(errors::store)?;
        let dropped = self.pending_requests().dropped();
        Ok(self.metrics().text(&counts, self.store().commits(), dropped))
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

/// Returns the path of a violation `$.path: message`, with `[*]` for every index.
fn folded_path(violation: &str) -> String {
    let path = path_of(violation);
    let mut folded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('[') {
        folded.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && after[digits..].starts_with(']') {
            folded.push_str("[*");
            rest = &after[digits..];
        } else {
            folded.push('[');
            rest = after;
        }
    }
    folded + rest
}

/// Returns the path of a violation `$.path: message`. A name in quotes may have anything in it.
fn path_of(violation: &str) -> &str {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (index, character) in violation.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '\'' => is_quoted = !is_quoted,
            ':' if !is_quoted && violation[index..].starts_with(": ") => return &violation[..index],
            _ => {}
        }
    }
    violation
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::registry::Registry;

    #[test]
    fn indexes_of_a_path_are_folded() {
        assert_eq!(folded_path("$.items[12].tags[0]: must be a string"), "$.items[*].tags[*]");
        assert_eq!(folded_path("$['a[1'].b: 'x: y' is wrong"), "$['a[1'].b");
        assert_eq!(folded_path("$: no"), "$");
        assert_eq!(folded_path("$['Note: net'][3]: must be a string"), "$['Note: net'][*]");
        assert_eq!(folded_path(r"$['it\'s: so'].x: 'a' is wrong"), r"$['it\'s: so'].x");
        assert_eq!(folded_path("no path"), "no path");
    }

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

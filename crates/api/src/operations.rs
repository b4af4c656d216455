//! Health, runners, backends and statistics.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::registry::Problem;

/// Liveness of the process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    pub status: String,
    /// Version of the server.
    pub version: String,
}

/// Readiness of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// Whether the server accepts requests.
    pub ready: bool,
    /// `ok`, or the database's error.
    pub database: String,
    /// Whether the server is shutting down.
    pub draining: bool,
    /// Number of runners seen in the last minute that accept runs of others.
    pub runners: usize,
    /// What keeps runs from being performed although the server accepts them.
    pub warnings: Vec<String>,
    /// Agent and schema files with problems.
    pub files: Vec<FileProblems>,
}

/// An agent or schema file with problems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileProblems {
    /// Name of the agent or schema; empty if a whole folder cannot be read.
    pub name: String,
    /// Path of the file.
    pub path: String,
    /// The problems.
    pub problems: Vec<Problem>,
    /// Whether a version of the agent or schema is in use, such as the last valid one.
    pub in_force: bool,
}

/// A runner seen in the last minute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunnerView {
    /// Assigned at the first registration.
    pub runner_id: String,
    /// Display name.
    pub name: String,
    /// Maximum number of concurrent runs.
    pub slots: i64,
    /// Number of current runs.
    pub working_on: i64,
    /// Version and backends, as the runner reported them.
    #[schema(value_type = Object)]
    pub details: Value,
    /// When the runner last registered.
    pub registered_at: String,
    /// When the runner was last seen.
    pub seen_at: String,
}

/// A backend that runners have reported. Keys and URLs stay on the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackendView {
    /// Name in the runner's configuration.
    pub name: String,
    /// Protocol, such as `openai` or `embedded`.
    pub kind: String,
    /// Name of the model, if configured.
    pub model: Option<String>,
    /// Ids of the runners that have this backend.
    pub runners: Vec<String>,
    /// What `slipform probe` found that the backend enforces, by feature; null if it was not probed.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub probe: Option<Value>,
}

/// Query parameters of `GET /stats`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatsQuery {
    /// Only runs of this agent.
    pub agent: Option<String>,
    /// Only runs that ended at or after this time (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<String>,
    /// Only runs that ended before this time (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    pub until: Option<String>,
}

/// Query parameters of `GET /stats/timeline`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TimelineQuery {
    /// Only runs of this agent.
    pub agent: Option<String>,
    /// Start of the first interval (RFC 3339); default 24 intervals before `until`.
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<String>,
    /// End of the last interval (RFC 3339); default now.
    #[param(value_type = Option<String>, format = DateTime)]
    pub until: Option<String>,
    /// Length of an interval; default `hour`.
    #[param(inline)]
    pub interval: Option<Interval>,
}

/// Length of an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interval {
    /// One hour.
    #[default]
    Hour,
    /// One day in UTC.
    Day,
}

/// Figures of the runs that ended in one interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimelineRow {
    /// Start of the interval.
    pub start: String,
    /// Ended runs.
    pub runs: i64,
    /// Runs that have a result other than a reported error.
    pub completed: i64,
    /// Runs that failed.
    pub failed: i64,
    /// Completed runs without retries or escalations.
    pub first_pass: i64,
    /// Model calls repeated because a reply did not satisfy the contract.
    pub retries: i64,
    /// Input and output tokens.
    pub tokens: i64,
}

/// How often a place of results violated its contract on a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ViolationsRow {
    /// JSONPath of the place, with `[*]` for any index.
    pub path: String,
    /// Backend of the runs' last model call; null for programs.
    pub backend: Option<String>,
    /// Number of violations.
    pub count: i64,
}

/// The sender of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Identity {
    /// Name of the token; null without one.
    pub name: Option<String>,
    /// `admin`, `caller` or `runner`; `local` without a token where none is required.
    pub scope: String,
    /// The agents that the token may run; null for all.
    pub agents: Option<Vec<String>>,
    /// Whether this server requires a token.
    pub token_required: bool,
}

/// Statistics of one agent on one backend, over its ended runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatsRow {
    /// Name of the agent.
    pub agent_name: String,
    /// Backend of the runs' last model call; null for runs without a model call or a receipt.
    pub backend: Option<String>,
    /// Model of that call.
    pub model: Option<String>,
    /// Ended runs.
    pub runs: i64,
    /// Runs that have a result other than a reported error.
    pub completed: i64,
    /// Runs whose result is a universal response that reports an error. They are not in `completed`.
    pub reported_errors: i64,
    /// Share of ended runs that have a result other than a reported error, from 0 to 1.
    pub success_rate: f64,
    /// Completed runs without retries or escalations.
    pub first_pass: i64,
    /// Share of completed runs without retries or escalations, from 0 to 1; null without completed runs.
    pub first_pass_rate: Option<f64>,
    /// Model calls repeated because a reply did not satisfy the contract.
    pub retries: i64,
    /// Replies that should have called `submit_result` and did not.
    pub missing_submits: i64,
    /// Moves to the next tier of the escalation ladder.
    pub escalations: i64,
    /// Input and output tokens of all runs, including failed ones.
    pub tokens: i64,
    /// Tokens per completed run, including the tokens of failed runs; null without completed runs.
    pub tokens_per_valid_result: Option<f64>,
    /// Median duration from first claim to end, in milliseconds; null if no run was claimed.
    pub p50_ms: Option<i64>,
    /// 95th percentile of the same duration, in milliseconds.
    pub p95_ms: Option<i64>,
}

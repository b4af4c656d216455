//! Operations.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Whether the process lives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    pub status: String,
    /// The program's version.
    pub version: String,
}

/// Whether requests can be served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// Whether they can.
    pub ready: bool,
    /// `ok`, or what is wrong with the database.
    pub database: String,
    /// Whether the server is going down.
    pub draining: bool,
    /// Runners that were heard of lately.
    pub runners: usize,
    /// Agent and schema files that cannot be used.
    pub files: Vec<AgentsTrouble>,
}

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentsTrouble {
    /// The agent or schema.
    pub name: String,
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub problems: Vec<String>,
    /// Whether an earlier version is in force.
    pub in_force: bool,
}

/// A runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunnerView {
    /// Its id.
    pub runner_id: String,
    /// Its name.
    pub name: String,
    /// How many runs it works on at a time.
    pub slots: i64,
    /// How many it works on now.
    pub working_on: i64,
    /// What it said of itself.
    #[schema(value_type = Object)]
    pub details: Value,
    /// When it said registration_request.
    pub registered_at: String,
    /// When it was last heard of.
    pub seen_at: String,
}

/// A backend that runners have said they know. Keys and addresses stay with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackendView {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its model.
    pub model: Option<String>,
    /// The runners that have it.
    pub runners: Vec<String>,
}

/// How an agent did on a backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatsRow {
    /// The agent.
    pub agent_name: String,
    /// The backend that its runs ended on; null where no model was asked, or the run ended without an account of it.
    pub backend: Option<String>,
    /// Its runs that have ended.
    pub runs: i64,
    /// Those with a result.
    pub completed: i64,
    /// The share of runs with a result, from 0 to 1.
    pub success_rate: f64,
    /// Those with a result that needed no retry and no other tier.
    pub first_pass: i64,
    /// The share of results that needed no retry and no other tier, from 0 to 1; null where there is no result.
    pub first_pass_rate: Option<f64>,
    /// Model calls that repeated another for the contract.
    pub retries: i64,
    /// Replies that were to call `submit_result` and did not.
    pub missing_submits: i64,
    /// Steps from a tier to the next.
    pub escalations: i64,
    /// Tokens that models read and wrote, for results and for failures.
    pub tokens: i64,
    /// What a result costs, failures included; null where there is no result.
    pub tokens_per_valid_result: Option<f64>,
    /// How long half of the runs took at most, in milliseconds from the first claim to the end; null where nobody
    /// claimed them.
    pub p50_ms: Option<i64>,
    /// How long 95 of a hundred runs took at most.
    pub p95_ms: Option<i64>,
}

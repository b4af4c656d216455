//! Sessions, their journals and results.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use slipform_types::{RunId, RunStatus, SessionId};
use utoipa::ToSchema;

use crate::openapi::{EventSchema, RunIdText, RunStatusName, SessionIdText};
use crate::run::RunResult;

/// A session as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// Its id.
    #[schema(value_type = SessionIdText)]
    pub session_id: SessionId,
    /// The agent.
    pub agent_name: String,
    /// How its latest run stands.
    #[schema(value_type = RunStatusName)]
    pub status: RunStatus,
    /// Its latest run.
    #[schema(value_type = RunIdText)]
    pub last_run_id: RunId,
    /// The session that it works for.
    #[schema(value_type = Option<SessionIdText>)]
    pub parent_session_id: Option<SessionId>,
    /// The sessions that work for it.
    #[schema(value_type = Vec<SessionIdText>)]
    pub children: Vec<SessionId>,
    /// The folder that it was given.
    pub project_dir: Option<String>,
    /// The number of its last event.
    pub last_seq: i64,
    /// When it began.
    pub created_at: String,
    /// When something last happened in it.
    pub updated_at: String,
}

/// Some of many sessions.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionPage {
    /// Those, newest first.
    pub sessions: Vec<SessionView>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// Some of a session's journal.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// Events, oldest first: `{seq, event_type, session_id, run_id, timestamp, …}`.
    #[schema(value_type = Vec<EventSchema>)]
    pub events: Vec<Box<RawValue>>,
    /// The last of them, to be asked for with `after`; null where there is nothing more for now.
    pub next: Option<i64>,
}

/// What came of a session's latest run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResultView {
    /// The run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// How it ended.
    #[schema(value_type = RunStatusName)]
    pub status: RunStatus,
    /// What went wrong, if something did. Where the contract is the universal response, its `response` is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub error: Option<Value>,
    /// What came of it.
    #[serde(flatten)]
    pub result: RunResult,
}

/// How a result was held against its contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SchemaValidation {
    /// Whether it satisfies it.
    pub valid: bool,
    /// The schema's name in the registry.
    pub schema_name: Option<String>,
    /// Where the schema came from.
    pub schema_source: String,
    /// Model calls that repeated another for it.
    pub retry_count: i64,
    /// How the model was asked.
    pub strategy: Option<String>,
    /// What was changed in its answer.
    #[schema(value_type = Vec<Object>)]
    pub repairs: Vec<Value>,
}

//! Sessions, their journals and results.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use slipform_types::{RunId, RunStatus, SessionId};
use utoipa::{IntoParams, ToSchema};

use crate::openapi::{EventSchema, RepairSchema, RunErrorSchema, RunIdText, RunStatusName, SessionIdText};
use crate::run::RunResult;

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// Id of the session.
    #[schema(value_type = SessionIdText)]
    pub session_id: SessionId,
    /// Name of the agent.
    pub agent_name: String,
    /// Status of the latest run.
    #[schema(value_type = RunStatusName)]
    pub status: RunStatus,
    /// Id of the latest run.
    #[schema(value_type = RunIdText)]
    pub last_run_id: RunId,
    /// The session that delegated to this one.
    #[schema(value_type = Option<SessionIdText>)]
    pub parent_session_id: Option<SessionId>,
    /// Sessions that this one delegated to, oldest first.
    #[schema(value_type = Vec<SessionIdText>)]
    pub children: Vec<SessionId>,
    /// Working folder as the caller sent it.
    pub project_dir: Option<String>,
    /// Id of the API token that started the session, or the session that delegated to it; null without one.
    pub created_by: Option<String>,
    /// `seq` of the last event.
    pub last_seq: i64,
    /// When the session was created.
    pub created_at: String,
    /// When the last event was appended.
    pub updated_at: String,
}

/// Query parameters of `GET /sessions`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionsQuery {
    /// Only sessions of this agent.
    pub agent_name: Option<String>,
    /// Only sessions whose latest run has this status.
    #[param(value_type = Option<RunStatusName>)]
    pub status: Option<RunStatus>,
    /// Only sessions that this one delegated to.
    #[param(value_type = Option<String>, pattern = "^ses_[0-9a-f]{12}$")]
    pub parent_session_id: Option<SessionId>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
    /// Maximum number of sessions; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<i64>,
}

/// Query parameters of `GET /sessions/{session_id}/events`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only events with a higher `seq`.
    #[param(minimum = 0)]
    pub after: Option<i64>,
    /// Maximum number of events; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<i64>,
}

/// A page of sessions.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionPage {
    /// Sessions, newest first.
    pub sessions: Vec<SessionView>,
    /// Cursor of the next page, to send as `after`; null on the last page.
    pub next: Option<String>,
}

/// A page of a session's journal.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// Events, oldest first: `{seq, event_type, session_id, run_id, timestamp, …}`.
    #[schema(value_type = Vec<EventSchema>)]
    pub events: Vec<Box<RawValue>>,
    /// `seq` to send as `after` for the next page; null if no further events exist yet.
    pub next: Option<i64>,
}

/// Result of a session's latest run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResultView {
    /// Id of the run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Status of the run.
    #[schema(value_type = RunStatusName)]
    pub status: RunStatus,
    /// The error of a failed or stopped run. If the contract is the universal response, `response` holds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RunErrorSchema>)]
    pub error: Option<Value>,
    /// The result.
    #[serde(flatten)]
    pub result: RunResult,
}

/// Result of validating a run against its contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SchemaValidation {
    /// Whether the result satisfies the contract.
    pub valid: bool,
    /// Name of the registered schema, if the contract uses one.
    pub schema_name: Option<String>,
    /// Source of the contract, such as `inline`.
    pub schema_source: String,
    /// Model calls repeated because a reply did not satisfy the contract.
    pub retry_count: i64,
    /// Retries that the contract allows on each rung.
    #[serde(default)]
    pub max_retries: i64,
    /// Strategy by which the model produced the JSON.
    pub strategy: Option<String>,
    /// Repairs made to the reply.
    #[schema(value_type = Vec<RepairSchema>)]
    pub repairs: Vec<Value>,
}

//! The API that runners call.

use std::pin::Pin;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use slipform_types::{EventBody, ExecutionMode, RunId, RunProgress, SessionId};
use utoipa::ToSchema;

use crate::assignment::EncodedAssignment;
use crate::error::Error;
use crate::openapi::{
    AssignmentSchema, EventBodySchema, EventSchema, ExecutionModeName, JsonSchemaDocument, RunIdText,
    RunProgressSchema, SessionIdText,
};

/// A boxed response future.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The coordinator's interface for runners.
pub trait RunnerApi: Send + Sync {
    /// Registers a runner.
    fn register<'a>(&'a self, request: &'a RegisterRequest) -> Answer<'a, Registered>;

    /// Claims runs, and waits up to `wait_ms` for the first one.
    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Answer<'a, Claims>;

    /// Renews the leases of attempts.
    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Answer<'a, HeartbeatAnswer>;

    /// Appends events to a run's journal.
    fn append<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended>;

    /// Appends the final events of a run and ends it.
    fn finish<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended>;

    /// Parks a run until a child ends.
    fn park<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()>;

    /// Returns a run to the queue.
    fn release<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()>;

    /// Starts a child run.
    fn delegate<'a>(&'a self, request: &'a ChildRequest) -> Answer<'a, ChildAnswer>;

    /// Returns further events of an attempt's session.
    fn journal<'a>(&'a self, request: &'a JournalRequest) -> Answer<'a, JournalPage>;

    /// Removes a runner that has released its runs.
    fn leave<'a>(&'a self, request: &'a LeaveRequest) -> Answer<'a, ()>;
}

/// Registration of a runner.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterRequest {
    /// Id from an earlier registration; omitted the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// Display name.
    pub name: String,
    /// Maximum number of concurrent runs.
    #[schema(maximum = 4_294_967_295_u64)]
    pub slots: u32,
    /// Version and backends, as a JSON object.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub details: Value,
}

/// Response to a registration.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    /// Id to use in later calls.
    pub runner_id: String,
    /// Duration of a lease, in milliseconds.
    pub lease_ms: u64,
    /// Interval at which to send heartbeats, in milliseconds.
    pub heartbeat_ms: u64,
}

/// A request for runs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// Id of the runner.
    pub runner_id: String,
    /// Number of free slots.
    #[schema(maximum = 4_294_967_295_u64)]
    pub slots: u32,
    /// Time to wait for the first run, in milliseconds; at most 10,000.
    #[serde(default)]
    pub wait_ms: u64,
}

/// Claimed runs.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Claims {
    /// One assignment per run; empty if none became available in time.
    #[schema(value_type = Vec<AssignmentSchema>)]
    pub claims: Vec<EncodedAssignment>,
}

/// Identifies an attempt at a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct AttemptRef {
    /// Id of the run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Fencing token of the attempt.
    pub token: i64,
}

/// A heartbeat, which renews leases.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Id of the runner.
    pub runner_id: String,
    /// The runner's active attempts.
    pub attempts: Vec<AttemptRef>,
}

/// Response to a heartbeat.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAnswer {
    /// One entry per attempt of the request.
    pub attempts: Vec<Beat>,
}

/// Lease status of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Beat {
    /// Id of the run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Fencing token of the attempt.
    pub token: i64,
    /// Whether the run has been asked to stop.
    pub stop: bool,
    /// Whether the attempt has lost its lease and must stop writing.
    pub stale: bool,
}

/// Events to append. Repeating the latest request has no further effect.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendRequest {
    /// Id of the run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Fencing token of the attempt.
    pub token: i64,
    /// Number of this request within the attempt, from 1.
    pub number: i64,
    /// Events without their envelope, as `{event_type, …}`.
    #[schema(value_type = Vec<EventBodySchema>, min_items = 1, max_items = 1_000)]
    pub events: Vec<EventBody>,
    /// How far the run has got after these events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RunProgressSchema>)]
    pub progress: Option<RunProgress>,
}

/// Response to an append.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Appended {
    /// `seq` of the session's last event.
    pub last_seq: i64,
    /// Whether the run has been asked to stop.
    pub stop: bool,
}

/// A request for further events of an attempt's session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JournalRequest {
    /// Id of the run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Fencing token of the attempt.
    pub token: i64,
    /// `seq` of the last event that the runner has.
    #[schema(minimum = 0)]
    pub after: i64,
}

/// Events of a session.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct JournalPage {
    /// Events, oldest first.
    #[schema(value_type = Vec<EventSchema>)]
    pub events: Vec<Box<RawValue>>,
    /// `seq` of the last of them, if more follow.
    pub next: Option<i64>,
}

/// A runner that ends.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaveRequest {
    /// Id of the runner.
    pub runner_id: String,
}

/// A request to start a child run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChildRequest {
    /// Id of the parent run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Fencing token of the parent's attempt.
    pub token: i64,
    /// Id of the tool call. Repeating a call returns the same child.
    pub call_id: String,
    /// Name of the child's agent.
    pub agent_name: String,
    /// The child session to resume; omitted to start one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SessionIdText>)]
    pub session_id: Option<SessionId>,
    /// Parameters of the child's agent.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// Whether the parent waits for the child.
    #[schema(value_type = ExecutionModeName)]
    pub execution_mode: ExecutionMode,
    /// JSON Schema that the child's result must satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JsonSchemaDocument>)]
    pub output_schema: Option<Value>,
    /// Name of a registered schema, instead of `output_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema_name: Option<String>,
}

/// Response to a request for a child run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChildAnswer {
    /// The child was started, or had been started by the same call.
    Accepted {
        /// Id of the child's session.
        #[schema(value_type = SessionIdText)]
        session_id: SessionId,
        /// Id of the child run.
        #[schema(value_type = RunIdText)]
        run_id: RunId,
    },
    /// The child was refused. The reason goes to the model that asked for it.
    Refused {
        /// Why the child was refused, phrased for a model.
        reason: String,
    },
}

//! What runners say to a coordinator.

use std::pin::Pin;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use slipform_types::{AgentCard, EventBody, ExecutionMode, RunId, SessionId};
use utoipa::ToSchema;

use crate::error::Error;
use crate::openapi::{
    EventBodySchema, EventSchema, ExecutionModeName, JsonSchemaDocument, RunIdText, SessionIdText,
};

/// What a coordinator answers.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A coordinator, as its runners see it.
pub trait RunnerApi: Send + Sync {
    /// Says registration_request.
    fn register<'a>(&'a self, registration_request: &'a RegisterRequest) -> Answer<'a, Registered>;

    /// Asks for work, and waits a while for it.
    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Answer<'a, Claims>;

    /// Says that attempts go on.
    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Answer<'a, HeartbeatAnswer>;

    /// Says what happened.
    fn append<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended>;

    /// Says how a run ended.
    fn finish<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended>;

    /// Lets a run wait for its children.
    fn park<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()>;

    /// Gives a run back.
    fn release<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()>;

    /// Asks for another agent's work.
    fn delegate<'a>(&'a self, request: &'a ChildRequest) -> Answer<'a, ChildAnswer>;
}

/// A runner's first words.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterRequest {
    /// The id that it had before; none the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// Its name, for people.
    pub name: String,
    /// How many runs it works on at a time.
    #[schema(maximum = 4_294_967_295_u64)]
    pub slots: u32,
    /// What it wants known of itself: its version and its backends.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub details: Value,
}

/// A runner that is known.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    /// Its id.
    pub runner_id: String,
    /// How long an attempt lasts without being heard of.
    pub lease_ms: u64,
    /// How often it should be heard of.
    pub heartbeat_ms: u64,
}

/// A question for work.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// The runner.
    pub runner_id: String,
    /// How many runs it has room for.
    #[schema(maximum = 4_294_967_295_u64)]
    pub slots: u32,
    /// How long it waits for the first.
    #[serde(default)]
    pub wait_ms: u64,
}

/// Assignment.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Claims {
    /// A run each.
    pub claims: Vec<Assignment>,
}

/// A run, with everything that is needed to work on it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Assignment {
    /// The run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// The attempt's fencing token.
    pub token: i64,
    /// The session.
    #[schema(value_type = SessionIdText)]
    pub session_id: SessionId,
    /// The folder that the session was given.
    pub project_dir: Option<String>,
    /// The agents that it may delegate to.
    #[schema(value_type = Vec<Object>)]
    pub agents: Vec<AgentCard>,
    /// The commands of all agents that the coordinator knows, for agents that write files: their programs are not
    /// written to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Vec<String>>,
    /// How much of its time is left.
    pub time_left_ms: Option<i64>,
    /// Whether it is to stop.
    pub stop: bool,
    /// The session's journal so far. The blueprint, the contract and the parameters are in it.
    #[schema(value_type = Vec<EventSchema>)]
    pub journal: Vec<Box<RawValue>>,
}

/// One attempt at a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct AttemptRef {
    /// The run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// The attempt's fencing token.
    pub token: i64,
}

/// A sign of life.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The runner.
    pub runner_id: String,
    /// What it works on.
    pub attempts: Vec<AttemptRef>,
}

/// What a runner should know of what it works on.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAnswer {
    /// One for each attempt.
    pub attempts: Vec<Beat>,
}

/// What a runner should know of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Beat {
    /// The run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// The attempt's fencing token.
    pub token: i64,
    /// Whether it is to stop.
    pub stop: bool,
    /// Whether it is somebody else's by now.
    pub stale: bool,
}

/// What happened in an attempt. Saying it again is the same as saying it once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendRequest {
    /// The run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// The attempt's fencing token.
    pub token: i64,
    /// The number of this message within the attempt, from 1.
    pub number: i64,
    /// Events without their envelope: `{event_type, …}` each.
    #[schema(value_type = Vec<EventBodySchema>, min_items = 1, max_items = 1_000)]
    pub events: Vec<EventBody>,
}

/// What happened was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Appended {
    /// The session's last event.
    pub last_seq: i64,
    /// Whether the run is to stop.
    pub stop: bool,
}

/// Another agent's work, asked for by a run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChildRequest {
    /// The run that asks.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Its attempt's fencing token.
    pub token: i64,
    /// The call that asks. The same call gives the same child.
    pub call_id: String,
    /// The agent.
    pub agent_name: String,
    /// The session to go on with; a new one where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SessionIdText>)]
    pub session_id: Option<SessionId>,
    /// What it is given.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// Whether the run waits for it.
    #[schema(value_type = ExecutionModeName)]
    pub execution_mode: ExecutionMode,
    /// What the result has to satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JsonSchemaDocument>)]
    pub output_schema: Option<Value>,
    /// The same by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema_name: Option<String>,
}

/// What became of a question for another agent's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChildAnswer {
    /// It was taken on.
    Accepted {
        /// The child's session.
        #[schema(value_type = SessionIdText)]
        session_id: SessionId,
        /// The child's run.
        #[schema(value_type = RunIdText)]
        run_id: RunId,
    },
    /// It was not, in words that a model can do something with.
    Refused {
        /// Why.
        reason: String,
    },
}

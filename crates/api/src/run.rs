//! Runs.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipform_types::{ExecutionMode, OptionsPatch, RunId, RunStatus, RunType, Salvage, SessionId, Tokens};
use utoipa::{IntoParams, ToSchema};

use crate::openapi::{
    ExecutionModeName, JsonSchemaDocument, OptionsSchema, RunIdText, RunStatusName, RunTypeName,
    SessionIdText,
};
use crate::session::SchemaValidation;

/// A run that is asked for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// Whether it begins a session or goes on with one.
    #[serde(rename = "type")]
    #[schema(value_type = RunTypeName)]
    pub run_type: RunType,
    /// The agent; needed to begin a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The session to go on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SessionIdText>)]
    pub session_id: Option<SessionId>,
    /// Short for `parameters.prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What the agent is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Value>,
    /// The JSON Schema that the result has to satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JsonSchemaDocument>)]
    pub output_schema: Option<Value>,
    /// The same by the name of a registered schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema_name: Option<String>,
    /// How it is enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OptionsSchema>)]
    pub output_schema_options: Option<OptionsPatch>,
    /// The session that the run works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SessionIdText>)]
    pub parent_session_id: Option<SessionId>,
    /// How whoever asks learns of its end.
    #[serde(default)]
    #[schema(value_type = ExecutionModeName)]
    pub execution_mode: ExecutionMode,
    /// The folder that the agent works in, inside the runner's project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_dir: Option<String>,
    /// Whether the run waits its turn where its session is busy; it is refused otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queue: bool,
}

impl RunRequest {
    /// A run that begins a session.
    pub fn start(agent_name: String) -> RunRequest {
        RunRequest { agent_name: Some(agent_name), ..RunRequest::blank(RunType::StartSession) }
    }

    /// A run that goes on with a session.
    pub fn resume(session_id: SessionId) -> RunRequest {
        RunRequest { session_id: Some(session_id), ..RunRequest::blank(RunType::ResumeSession) }
    }

    fn blank(run_type: RunType) -> RunRequest {
        RunRequest {
            run_type,
            agent_name: None,
            session_id: None,
            prompt: None,
            parameters: None,
            output_schema: None,
            output_schema_name: None,
            output_schema_options: None,
            parent_session_id: None,
            execution_mode: ExecutionMode::default(),
            project_dir: None,
            queue: false,
        }
    }
}

/// Whether and how long to wait.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Seconds to wait for the run's end.
    #[serde(default)]
    #[param(minimum = 0, maximum = 600)]
    pub wait: Option<f64>,
}

/// A run that was taken on.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunCreated {
    /// Its id.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Its session.
    #[schema(value_type = SessionIdText)]
    pub session_id: SessionId,
    /// How it stands.
    #[schema(value_type = RunStatusName)]
    pub status: RunStatus,
}

/// A run as it stands, with what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    /// Its id.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Its session.
    #[schema(value_type = SessionIdText)]
    pub session_id: SessionId,
    /// The agent.
    pub agent_name: String,
    /// Whether it begins the session.
    #[serde(rename = "type")]
    #[schema(value_type = RunTypeName)]
    pub run_type: RunType,
    /// How it stands.
    #[schema(value_type = RunStatusName)]
    pub status: RunStatus,
    /// What went wrong, if something did. Where the contract is the universal response, its `response` is one.
    #[schema(value_type = Option<Object>)]
    pub error: Option<Value>,
    /// Model calls that repeated another for the contract.
    pub retry_count: i64,
    /// Claims by runners.
    pub attempts: i64,
    /// What the result has to satisfy.
    #[schema(value_type = Option<Object>)]
    pub contract: Option<Value>,
    /// The runs that went on with it after its children had called back, oldest first. Left out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<RunIdText>)]
    pub continued_by: Vec<RunId>,
    /// Whether a child is still to call back. Left out where none is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits_callback: bool,
    /// When it was asked for.
    pub created_at: String,
    /// When a runner first began to work on it.
    pub started_at: Option<String>,
    /// When it ended.
    pub finished_at: Option<String>,
    /// What came of it. Left out until it has ended.
    #[serde(flatten)]
    pub result: Option<RunResult>,
}

/// What came of a run that has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunResult {
    /// The text, for runs without a contract.
    pub result_text: Option<String>,
    /// The JSON, for runs with one.
    pub result_data: Option<Value>,
    /// The result as text, whichever it is.
    pub result: Option<String>,
    /// The JSON that was validated.
    pub validated_output: Option<Value>,
    /// How it was validated.
    pub schema_validation: Option<SchemaValidation>,
    /// How it came about.
    #[schema(value_type = Option<Object>)]
    pub receipt: Option<Value>,
    /// What can still be used of a failed run.
    #[schema(value_type = Option<Object>)]
    pub salvage: Option<Salvage>,
}

/// A run in a list: without its contract and without what was written in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunSummary {
    /// Its id.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Its session.
    #[schema(value_type = SessionIdText)]
    pub session_id: SessionId,
    /// The agent.
    pub agent_name: String,
    /// Whether it begins the session.
    #[serde(rename = "type")]
    #[schema(value_type = RunTypeName)]
    pub run_type: RunType,
    /// How it stands.
    #[schema(value_type = RunStatusName)]
    pub status: RunStatus,
    /// `{type, message}` of what went wrong, if something did.
    #[schema(value_type = Option<Object>)]
    pub error: Option<Value>,
    /// Model calls that repeated another for the contract.
    pub retry_count: i64,
    /// Claims by runners.
    pub attempts: i64,
    /// The run that it works for.
    #[schema(value_type = Option<RunIdText>)]
    pub parent_run_id: Option<RunId>,
    /// The backend that answered last, once the run has ended.
    pub backend: Option<String>,
    /// What its model calls consumed, once the run has ended.
    #[schema(value_type = Option<Object>)]
    pub tokens: Option<Tokens>,
    /// When it was asked for.
    pub created_at: String,
    /// When a runner first began to work on it.
    pub started_at: Option<String>,
    /// When it ended.
    pub finished_at: Option<String>,
}

/// Some of many runs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunPage {
    /// Those, newest first.
    pub runs: Vec<RunSummary>,
    /// Where the next page begins.
    pub next: Option<String>,
}

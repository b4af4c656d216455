//! Runs.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipform_types::{
    ExecutionMode, OptionsPatch, RunErrorType, RunId, RunOverrides, RunStatus, RunType, RunVerdict, Salvage,
    Sampling, SessionId, Tokens, TraceParent,
};
use utoipa::{IntoParams, ToSchema};

use crate::openapi::{
    ContractSchema, ExecutionModeName, JsonSchemaDocument, OptionsSchema, ReceiptSchema, RunErrorSchema,
    RunErrorSummarySchema, RunErrorTypeName, RunIdText, RunStatusName, RunTypeName, RunVerdictName,
    SalvageSchema, SessionIdText, TokensSchema,
};
use crate::session::SchemaValidation;

/// A run to submit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// `start_session` or `resume_session`. Omitted, a request with `session_id` resumes it, and any other starts a
    /// session.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RunTypeName>)]
    pub run_type: Option<RunType>,
    /// Name of the agent; required to start a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The session to resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SessionIdText>)]
    pub session_id: Option<SessionId>,
    /// Short for `parameters.prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Parameters of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Value>,
    /// JSON Schema that the result must satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JsonSchemaDocument>)]
    pub output_schema: Option<Value>,
    /// Name of a registered schema. `output_schema` takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema_name: Option<String>,
    /// Enforcement options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OptionsSchema>)]
    pub output_schema_options: Option<OptionsPatch>,
    /// The parent session, for child runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SessionIdText>)]
    pub parent_session_id: Option<SessionId>,
    /// Decides how the caller learns of the run's end.
    #[serde(default)]
    #[schema(value_type = ExecutionModeName)]
    pub execution_mode: ExecutionMode,
    /// Working folder, relative to the runner's project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_dir: Option<String>,
    /// Backend for all tiers of the run and of its children, as `GET /backends` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub backend: Option<String>,
    /// Model to name in requests to the backend, instead of the configured one. The run does not escalate to other tiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub model: Option<String>,
    /// The most tokens in a reply, instead of the agent's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_tokens: Option<u32>,
    /// Time limit of the run in seconds, instead of the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_seconds: Option<u32>,
    /// Whether the run waits while its session is busy. Otherwise a busy session refuses it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queue: bool,
    /// Whether a resumed session continues with the agent as it is defined now. Otherwise it keeps the definition that it
    /// has used so far.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refresh_agent: bool,
    /// The caller's position in its trace, from the header `traceparent`. It is no part of the body.
    #[serde(skip)]
    #[schema(ignore)]
    pub trace_parent: Option<TraceParent>,
    /// The sampling parameters of a client of the gateway. They are no part of the body.
    #[serde(skip)]
    #[schema(ignore)]
    pub sampling: Sampling,
}

impl RunRequest {
    /// A request that starts a session.
    pub fn start(agent_name: String) -> RunRequest {
        RunRequest { agent_name: Some(agent_name), ..RunRequest::blank(RunType::StartSession) }
    }

    /// A request that resumes a session.
    pub fn resume(session_id: SessionId) -> RunRequest {
        RunRequest { session_id: Some(session_id), ..RunRequest::blank(RunType::ResumeSession) }
    }

    /// Returns whether the request starts a session or resumes one.
    pub fn run_type(&self) -> RunType {
        let implied = if self.session_id.is_some() { RunType::ResumeSession } else { RunType::StartSession };
        self.run_type.unwrap_or(implied)
    }

    /// Returns the settings that the request chooses for its run.
    pub fn overrides(&self) -> RunOverrides {
        RunOverrides {
            backend: self.backend.clone(),
            model: self.model.clone(),
            max_tokens: self.max_tokens,
            timeout_seconds: self.timeout_seconds,
            trace_parent: self.trace_parent.clone(),
            sampling: self.sampling.clone(),
        }
    }

    fn blank(run_type: RunType) -> RunRequest {
        RunRequest {
            run_type: Some(run_type),
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
            backend: None,
            model: None,
            max_tokens: None,
            timeout_seconds: None,
            queue: false,
            refresh_agent: false,
            trace_parent: None,
            sampling: Sampling::default(),
        }
    }
}

/// Query parameters of `POST /runs`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Seconds to wait for the run's end.
    #[serde(default)]
    #[param(minimum = 0, maximum = 600)]
    pub wait: Option<f64>,
}

/// Query parameters of `GET /runs`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunsQuery {
    /// Only runs of this agent.
    pub agent_name: Option<String>,
    /// Only runs of this session.
    #[param(value_type = Option<String>, pattern = "^ses_[0-9a-f]{12}$")]
    pub session_id: Option<SessionId>,
    /// Only runs with this status.
    #[param(value_type = Option<RunStatusName>)]
    pub status: Option<RunStatus>,
    /// Only children of this run.
    #[param(value_type = Option<String>, pattern = "^run_[0-9a-f]{12}$")]
    pub parent_run_id: Option<RunId>,
    /// Only runs whose last model call used this backend.
    pub backend: Option<String>,
    /// Only runs that ended with an error of this type.
    #[param(value_type = Option<RunErrorTypeName>)]
    pub error_type: Option<RunErrorType>,
    /// Only completed runs with this verdict.
    #[param(value_type = Option<RunVerdictName>)]
    pub verdict: Option<RunVerdict>,
    /// Only runs submitted at or after this time (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    pub created_after: Option<String>,
    /// Only runs submitted before this time (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    pub created_before: Option<String>,
    /// Only the run that was submitted with this idempotency key.
    #[param(min_length = 1, max_length = 255)]
    pub idempotency_key: Option<String>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
    /// Maximum number of runs; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<i64>,
}

/// An accepted run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunCreated {
    /// Id of the run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Id of its session.
    #[schema(value_type = SessionIdText)]
    pub session_id: SessionId,
    /// `pending`, or the current status if an idempotency key repeats an earlier request.
    #[schema(value_type = RunStatusName)]
    pub status: RunStatus,
}

/// A run, with its result once it has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    /// Id of the run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Id of its session.
    #[schema(value_type = SessionIdText)]
    pub session_id: SessionId,
    /// Name of the agent.
    pub agent_name: String,
    /// Whether the run started its session or resumed it.
    #[serde(rename = "type")]
    #[schema(value_type = RunTypeName)]
    pub run_type: RunType,
    /// Current status.
    #[schema(value_type = RunStatusName)]
    pub status: RunStatus,
    /// The error of a failed or stopped run. If the contract is the universal response, `response` holds one.
    #[schema(value_type = Option<RunErrorSchema>)]
    pub error: Option<Value>,
    /// Model calls repeated because a reply did not satisfy the contract.
    pub retry_count: i64,
    /// Retries that the contract allows on each rung; null without a contract.
    pub max_retries: Option<i64>,
    /// Number of claims by runners.
    pub attempts: i64,
    /// Id of the API token that submitted the run; null without one.
    pub created_by: Option<String>,
    /// Contract that the result must satisfy; null without one.
    #[schema(value_type = Option<ContractSchema>)]
    pub contract: Option<Value>,
    /// Backend of the last model call, or of the next one; null before the first attempt and for programs.
    pub backend: Option<String>,
    /// Model that requests to the backend name.
    pub model: Option<String>,
    /// Callback runs that continued this run after its children had ended, oldest first. Omitted if there are
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<RunIdText>)]
    pub continued_by: Vec<RunId>,
    /// Whether a child has yet to end or call back. Omitted if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits_callback: bool,
    /// When the run was submitted.
    pub created_at: String,
    /// When a runner first claimed the run.
    pub started_at: Option<String>,
    /// When the run ended.
    pub finished_at: Option<String>,
    /// The result. Omitted until the run has ended.
    #[serde(flatten)]
    pub result: Option<RunResult>,
}

/// The result of an ended run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunResult {
    /// The text, for runs without a contract.
    #[serde(deserialize_with = "present")]
    pub result_text: Option<String>,
    /// The JSON, for runs with a contract.
    pub result_data: Option<Value>,
    /// The accepted reply as the model wrote it, before repairs: its text, or the arguments of `submit_result`. For programs,
    /// their output.
    pub result: Option<String>,
    /// The JSON that was validated against the contract.
    pub validated_output: Option<Value>,
    /// Result of the validation; null without a contract.
    pub schema_validation: Option<SchemaValidation>,
    /// The receipt: strategy, calls, retries, repairs and tokens.
    #[schema(value_type = Option<ReceiptSchema>)]
    pub receipt: Option<Value>,
    /// Usable parts of a failed run.
    #[schema(value_type = Option<SalvageSchema>)]
    pub salvage: Option<Salvage>,
}

/// Reads a member that must be present, if only as null: a run that has not ended has no members of a result.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

/// A run in a list, without its contract and texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunSummary {
    /// Id of the run.
    #[schema(value_type = RunIdText)]
    pub run_id: RunId,
    /// Id of its session.
    #[schema(value_type = SessionIdText)]
    pub session_id: SessionId,
    /// Name of the agent.
    pub agent_name: String,
    /// Whether the run started its session or resumed it.
    #[serde(rename = "type")]
    #[schema(value_type = RunTypeName)]
    pub run_type: RunType,
    /// Current status.
    #[schema(value_type = RunStatusName)]
    pub status: RunStatus,
    /// `{type, message}` of a failed or stopped run.
    #[schema(value_type = Option<RunErrorSummarySchema>)]
    pub error: Option<Value>,
    /// How the result was reached; null until the run has completed, and without a contract.
    #[schema(value_type = Option<RunVerdictName>)]
    pub verdict: Option<RunVerdict>,
    /// Repairs of the accepted reply; 0 until the run has ended.
    #[serde(default)]
    pub repairs: i64,
    /// Model calls repeated because a reply did not satisfy the contract.
    pub retry_count: i64,
    /// Retries that the contract allows on each rung; null without a contract.
    pub max_retries: Option<i64>,
    /// Number of claims by runners.
    pub attempts: i64,
    /// The run that delegated to this one.
    #[schema(value_type = Option<RunIdText>)]
    pub parent_run_id: Option<RunId>,
    /// Id of the API token that submitted the run; null without one.
    pub created_by: Option<String>,
    /// Backend of the last model call, or of the next one; null before the first attempt and for programs.
    pub backend: Option<String>,
    /// Model that requests to the backend name.
    pub model: Option<String>,
    /// Token usage of the model calls; set when the run has ended.
    #[schema(value_type = Option<TokensSchema>)]
    pub tokens: Option<Tokens>,
    /// When the run was submitted.
    pub created_at: String,
    /// When a runner first claimed the run.
    pub started_at: Option<String>,
    /// When the run ended.
    pub finished_at: Option<String>,
}

/// A page of runs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunPage {
    /// Runs, newest first.
    pub runs: Vec<RunSummary>,
    /// Cursor of the next page, to send as `after`; null on the last page.
    pub next: Option<String>,
}

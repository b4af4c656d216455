//! The outcome and status of a run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CallError, Receipt, SubtaskOutcome, ToolCall};

/// The tool that a model submits its result with.
pub const SUBMIT_RESULT: &str = "submit_result";

/// The violation for a reply that should have called `submit_result` and did not.
pub const NOT_SUBMITTED: &str = "$: no result was submitted";

/// The consequence of the last failed validation of a run. The end of the run reports the same errors.
pub const RUN_FAILS: &str = "the run fails";

/// The receipt flag of a result that lacks a part: a subtask of the orchestration failed or did not begin.
pub const INCOMPLETE: &str = "incomplete";

/// The outcome of a run: a result or a typed failure.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The run has a result that satisfies its contract.
    Completed(Box<Success>),
    /// The run ends with calls of tools that its caller executes. Their arguments satisfy the schemas of the tools.
    ToolCalls(Box<ClientCalls>),
    /// The run has no result.
    Failed(Box<Failure>),
}

/// The calls with which a run ends whose caller executes the tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientCalls {
    /// The text beside the calls; empty if the model wrote none.
    pub text: String,
    /// The calls, in the order of the reply.
    pub calls: Vec<ToolCall>,
    /// The record of how the calls were reached.
    pub receipt: Receipt,
}

/// The result of a completed run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Success {
    /// The result of a run without a contract; `None` otherwise.
    pub result_text: Option<String>,
    /// The result of a run with a contract; `None` otherwise.
    pub result_data: Option<Value>,
    /// The record of how the result was reached.
    pub receipt: Receipt,
}

/// How far a run has got, for people who watch it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunProgress {
    /// The number of requests, including the next one, that repeat another because its reply was rejected.
    pub retry_count: u32,
    /// The backend of the current rung; `None` if no model is asked.
    pub backend: Option<String>,
    /// The model that requests to it name.
    pub model: Option<String>,
}

/// The failure of a run, with everything that was produced before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The error that ended the run.
    pub error: RunError,
    /// The partial results that can still be used.
    pub salvage: Salvage,
    /// The record of what was tried.
    pub receipt: Receipt,
}

/// The error of a failed run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunError {
    /// The type of error, for programs.
    #[serde(rename = "type")]
    pub kind: RunErrorType,
    /// The message, for people.
    pub message: String,
    /// Each violation of the contract as `$.path: message`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validation_errors: Vec<String>,
    /// The last reply, as the model wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output: Option<String>,
    /// The number of requests to models.
    #[serde(default)]
    pub calls: u32,
    /// The number of requests that repeated another because its reply was rejected.
    #[serde(default)]
    pub retry_count: u32,
    /// The failure of the last model call, if the run failed because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_error: Option<CallError>,
    /// The error in the format that readers of the result expect. It is a universal response if the contract
    /// is one. For callers of the action protocol it is an envelope with the error in `content`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
}

/// The type of a run's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunErrorType {
    /// No reply satisfied the contract, and no retries are left.
    OutputSchemaValidationFailed,
    /// The model never called `submit_result`.
    ResultNotSubmitted,
    /// The token budget cut off every reply.
    OutputTruncated,
    /// The model declined, or a content filter intervened.
    Refused,
    /// The run has no contract, and the model wrote nothing.
    EmptyReply,
    /// The backend is unreachable or overloaded.
    BackendUnavailable,
    /// The backend refuses the request.
    BackendRejected,
    /// A tool failed permanently.
    ToolFailed,
    /// The run reached a limit of its blueprint.
    LimitExceeded,
    /// The run reached its deadline.
    Timeout,
    /// Its runners died too often.
    Lost,
    /// A caller stopped the run.
    Stopped,
}

impl RunErrorType {
    /// All types, in the order of the documentation.
    pub const ALL: [RunErrorType; 12] = [
        RunErrorType::OutputSchemaValidationFailed,
        RunErrorType::ResultNotSubmitted,
        RunErrorType::OutputTruncated,
        RunErrorType::Refused,
        RunErrorType::EmptyReply,
        RunErrorType::BackendUnavailable,
        RunErrorType::BackendRejected,
        RunErrorType::ToolFailed,
        RunErrorType::LimitExceeded,
        RunErrorType::Timeout,
        RunErrorType::Lost,
        RunErrorType::Stopped,
    ];

    /// Returns the name in the journal and the API.
    pub fn name(self) -> &'static str {
        match self {
            RunErrorType::OutputSchemaValidationFailed => "output_schema_validation_failed",
            RunErrorType::ResultNotSubmitted => "result_not_submitted",
            RunErrorType::OutputTruncated => "output_truncated",
            RunErrorType::Refused => "refused",
            RunErrorType::EmptyReply => "empty_reply",
            RunErrorType::BackendUnavailable => "backend_unavailable",
            RunErrorType::BackendRejected => "backend_rejected",
            RunErrorType::ToolFailed => "tool_failed",
            RunErrorType::LimitExceeded => "limit_exceeded",
            RunErrorType::Timeout => "timeout",
            RunErrorType::Lost => "lost",
            RunErrorType::Stopped => "stopped",
        }
    }

    /// Returns the recommended action for the caller.
    pub fn suggested_action(self) -> &'static str {
        match self {
            RunErrorType::OutputSchemaValidationFailed => {
                "Run it again with more retries or a stronger model, or say in the prompt what the errors name."
            }
            RunErrorType::ResultNotSubmitted => {
                "Run it again with a model that calls tools, or with another strategy, such as 'prompt'."
            }
            RunErrorType::OutputTruncated => {
                "Raise max_tokens of the agent or of the backend, or ask for less at once."
            }
            RunErrorType::Refused => "Reword the request, or run it with another model.",
            RunErrorType::EmptyReply => {
                "Run it again with another model, or check the backend's chat template and max_tokens."
            }
            RunErrorType::BackendUnavailable => {
                "Check that the backend runs and can be reached at its base_url, then run it again."
            }
            RunErrorType::BackendRejected => {
                "Check the backend's model, key and settings, then run it again."
            }
            RunErrorType::ToolFailed => {
                "Check the tool or program that the message names, then run it again."
            }
            RunErrorType::LimitExceeded => {
                "Raise the limit that the message names in the agent's file, or ask for less at once."
            }
            RunErrorType::Timeout => "Raise timeout_seconds in the agent's file, or ask for less at once.",
            RunErrorType::Lost => "Check the runners and their memory, then run it again.",
            RunErrorType::Stopped => "Run it again when it is wanted.",
        }
    }
}

/// The partial results of a failed run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Salvage {
    /// Every reply, as the models wrote it, oldest first.
    pub replies: Vec<String>,
    /// The document closest to the contract, if any reply contained one.
    pub best_candidate: Option<Value>,
    /// The parts of `best_candidate` that satisfy their own subschemas.
    pub valid_parts: Option<Value>,
    /// The violations of `best_candidate`, as `$.path: message`.
    pub errors: Vec<String>,
    /// The subtasks of an orchestration with their results, as far as it came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subtasks: Vec<SubtaskOutcome>,
}

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run waits for a runner, or for the active run of its session to end.
    Pending,
    /// A runner has claimed the run and not started it yet.
    Claimed,
    /// A runner executes the run.
    Running,
    /// The run waits for a child and holds no slot.
    Waiting,
    /// A stop was requested and has not taken effect yet.
    Stopping,
    /// The run ended with a result.
    Completed,
    /// The run ended with an error.
    Failed,
    /// The run ended because it was stopped.
    Stopped,
}

impl RunStatus {
    /// All statuses, in the order of a run's life.
    pub const ALL: [RunStatus; 8] = [
        RunStatus::Pending,
        RunStatus::Claimed,
        RunStatus::Running,
        RunStatus::Waiting,
        RunStatus::Stopping,
        RunStatus::Completed,
        RunStatus::Failed,
        RunStatus::Stopped,
    ];

    /// Returns the status with this name; `None` for unknown names.
    pub fn named(name: &str) -> Option<RunStatus> {
        RunStatus::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Returns whether the run has ended.
    pub fn is_ended(self) -> bool {
        matches!(self, RunStatus::Completed | RunStatus::Failed | RunStatus::Stopped)
    }

    /// Returns the name in the journal and the API.
    pub fn name(self) -> &'static str {
        match self {
            RunStatus::Pending => "pending",
            RunStatus::Claimed => "claimed",
            RunStatus::Running => "running",
            RunStatus::Waiting => "waiting",
            RunStatus::Stopping => "stopping",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Stopped => "stopped",
        }
    }
}

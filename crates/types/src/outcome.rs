//! How a run ends.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Receipt;

/// What is said to be wrong with a reply that was to call `submit_result` and did not.
pub const NOT_SUBMITTED: &str = "$: no result was submitted";

/// How a run ended: with a result or with a typed failure, never in between.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// There is a result, and it satisfies the contract.
    Completed(Box<Success>),
    /// There is none.
    Failed(Box<Failure>),
}

/// A result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Success {
    /// The text, for runs without a contract.
    pub result_text: Option<String>,
    /// The JSON, for runs with one.
    pub result_data: Option<Value>,
    /// How it came about.
    pub receipt: Receipt,
}

/// A failure, with everything that was paid for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What went wrong.
    pub error: RunError,
    /// What can still be used.
    pub salvage: Salvage,
    /// What was tried.
    pub receipt: Receipt,
}

/// What went wrong with a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunError {
    /// The kind, for programs.
    #[serde(rename = "type")]
    pub kind: RunErrorType,
    /// The same in words.
    pub message: String,
    /// Each violation of the contract as `$.path: message`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validation_errors: Vec<String>,
    /// The last reply as the model wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output: Option<String>,
    /// Requests made to models.
    #[serde(default)]
    pub calls: u32,
    /// Requests that repeat another because its answer would not do.
    #[serde(default)]
    pub retry_count: u32,
    /// The same in the form that whoever reads results expects: a universal response where the contract is one, else
    /// for callers of the action protocol an envelope with the error in `content`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunErrorType {
    /// Retries were spent and no reply satisfied the contract.
    OutputSchemaValidationFailed,
    /// The model never called `submit_result`.
    ResultNotSubmitted,
    /// Every reply was cut off by its token budget.
    OutputTruncated,
    /// The model declined, or a filter stepped in.
    Refused,
    /// The backend cannot be reached, or is overloaded.
    BackendUnavailable,
    /// The backend does not take the request.
    BackendRejected,
    /// A tool failed for good.
    ToolFailed,
    /// A limit of the blueprint was reached.
    LimitExceeded,
    /// The run's time was up.
    Timeout,
    /// Its runners died too often.
    Lost,
    /// Someone stopped it.
    Stopped,
}

impl RunErrorType {
    /// Every kind.
    pub const ALL: [RunErrorType; 11] = [
        RunErrorType::OutputSchemaValidationFailed,
        RunErrorType::ResultNotSubmitted,
        RunErrorType::OutputTruncated,
        RunErrorType::Refused,
        RunErrorType::BackendUnavailable,
        RunErrorType::BackendRejected,
        RunErrorType::ToolFailed,
        RunErrorType::LimitExceeded,
        RunErrorType::Timeout,
        RunErrorType::Lost,
        RunErrorType::Stopped,
    ];

    /// The name in the journal and the API.
    pub fn name(self) -> &'static str {
        match self {
            RunErrorType::OutputSchemaValidationFailed => "output_schema_validation_failed",
            RunErrorType::ResultNotSubmitted => "result_not_submitted",
            RunErrorType::OutputTruncated => "output_truncated",
            RunErrorType::Refused => "refused",
            RunErrorType::BackendUnavailable => "backend_unavailable",
            RunErrorType::BackendRejected => "backend_rejected",
            RunErrorType::ToolFailed => "tool_failed",
            RunErrorType::LimitExceeded => "limit_exceeded",
            RunErrorType::Timeout => "timeout",
            RunErrorType::Lost => "lost",
            RunErrorType::Stopped => "stopped",
        }
    }

    /// What whoever asked can do about it.
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

/// What a failed run leaves: nothing that was paid for is thrown away.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Salvage {
    /// Every reply as the models wrote it, oldest first.
    pub replies: Vec<String>,
    /// The document that came closest to the contract.
    pub best_candidate: Option<Value>,
    /// What of it satisfies the contract, taken by itself.
    pub valid_parts: Option<Value>,
    /// What is wrong with it.
    pub errors: Vec<String>,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It waits for a runner.
    Pending,
    /// A runner has it.
    Claimed,
    /// A runner works on it.
    Running,
    /// It waits for a child and holds no slot.
    Waiting,
    /// It was asked to stop.
    Stopping,
    /// It has a result.
    Completed,
    /// It has none.
    Failed,
    /// It was stopped.
    Stopped,
}

impl RunStatus {
    /// Every status.
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

    /// The status of a name.
    pub fn named(name: &str) -> Option<RunStatus> {
        RunStatus::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Whether nothing can follow.
    pub fn is_ended(self) -> bool {
        matches!(self, RunStatus::Completed | RunStatus::Failed | RunStatus::Stopped)
    }

    /// The name in the journal and the API.
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

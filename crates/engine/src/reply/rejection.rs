//! Rejections: why an answer is not accepted, for retries and failures.

use serde_json::Value;
use slipform_schema::Violation;
use slipform_types::{NOT_SUBMITTED, RunErrorType};

use super::judge::{SUBMIT, Verdict};
use crate::prompt::RetryReason;

/// The reason why a reply is rejected, as reported in a failure and in a retry.
#[derive(Debug, Clone)]
pub(crate) struct Rejection {
    pub(crate) kind: RunErrorType,
    pub(crate) retry_reason: RetryReason,
    pub(crate) errors: Vec<String>,
    pub(crate) message: String,
}

impl Rejection {
    /// Creates a rejection for a reply that does not meet its requirements.
    pub(crate) fn unmet(retry_reason: RetryReason, errors: Vec<String>, message: &str) -> Rejection {
        let kind = RunErrorType::OutputSchemaValidationFailed;
        Rejection { kind, retry_reason, errors, message: message.to_owned() }
    }

    /// Creates a rejection for a reply that does not follow the action protocol.
    pub(crate) fn no_action(errors: Vec<String>) -> Rejection {
        Rejection::unmet(RetryReason::Envelope, errors, "Output did not follow the action protocol")
    }

    /// Returns the rejection of a reply that need not have called `submit_result`: it held no result.
    pub(crate) fn without_submission(self) -> Rejection {
        if self.kind != RunErrorType::ResultNotSubmitted {
            return self;
        }
        let kind = RunErrorType::OutputSchemaValidationFailed;
        Rejection { kind, message: "Output held no result".to_owned(), ..self }
    }

    /// Creates a rejection for a reply without a value. `tool` is the tool that submits one.
    pub(super) fn no_answer(verdict: &Verdict, tool: &str) -> Rejection {
        let (kind, error, message) = match verdict {
            Verdict::Withheld { error } => (
                RunErrorType::OutputSchemaValidationFailed,
                error.clone(),
                "Output held no result".to_owned(),
            ),
            Verdict::NotSubmitted => {
                let error = if tool == SUBMIT {
                    NOT_SUBMITTED.to_owned()
                } else {
                    format!("$: {tool} was not called")
                };
                (RunErrorType::ResultNotSubmitted, error, format!("Agent did not call {tool}"))
            }
            Verdict::Empty { has_reasoning: true } => (
                RunErrorType::OutputSchemaValidationFailed,
                "$: the response held only reasoning and no answer".to_owned(),
                "Output held no answer".to_owned(),
            ),
            Verdict::Empty { has_reasoning: false } => (
                RunErrorType::OutputSchemaValidationFailed,
                "$: the response was empty".to_owned(),
                "Output was empty".to_owned(),
            ),
            Verdict::NoJson { reason } => (
                RunErrorType::OutputSchemaValidationFailed,
                format!("$: no JSON output found ({reason})"),
                "Output held no JSON".to_owned(),
            ),
            _ => (
                RunErrorType::OutputSchemaValidationFailed,
                "$: no answer".to_owned(),
                "No answer".to_owned(),
            ),
        };
        Rejection { kind, retry_reason: RetryReason::NoAnswer, errors: vec![error], message }
    }
}

/// Creates a violation that does not come from a schema.
pub(crate) fn violation(path: &str, message: String) -> Violation {
    Violation { path: path.to_owned(), message, schema_path: String::new(), value: Value::Null }
}

//! The errors of runs without a result.

use serde_json::Value;
use slipform_runner::unsupported_message;
use slipform_types::{CallError, RunErrorType};

use crate::error::ApiError;

/// Phrases with which servers refuse a conversation that is too long.
const TOO_LONG: [&str; 13] = [
    "context length",
    "context_length",
    "context limit",
    "context size",
    "context window",
    "input is too long",
    "input token count",
    "input tokens exceed",
    "maximum context",
    "prompt is too long",
    "reduce the length of the messages",
    "reduce the length of your prompt",
    "too many tokens",
];

/// A run without a result.
pub(crate) struct FailedRun {
    pub(crate) kind: RunErrorType,
    pub(crate) message: String,
    pub(crate) validation_errors: Vec<String>,
    pub(crate) salvage: Value,
    pub(crate) run_id: String,
}

impl FailedRun {
    /// Returns the error of the response.
    pub(crate) fn error(self, call: Option<CallError>) -> ApiError {
        let (run_id, status) = (self.run_id, call.as_ref().and_then(|call| call.status));
        let error = match self.kind {
            RunErrorType::OutputSchemaValidationFailed | RunErrorType::ResultNotSubmitted => {
                let error =
                    ApiError::new(422, "output_error", "output_schema_validation_failed", self.message);
                error.with("validation_errors", self.validation_errors).with("salvage", self.salvage)
            }
            RunErrorType::BackendUnavailable if status == Some(429) => {
                let error = ApiError::new(429, "rate_limit_error", "rate_limit_exceeded", self.message);
                error.retry_after(call.and_then(|call| call.retry_after_seconds).unwrap_or(1))
            }
            RunErrorType::BackendUnavailable => {
                unavailable(self.message, call.and_then(|call| call.retry_after_seconds))
            }
            RunErrorType::BackendRejected => rejected(self.message, status),
            RunErrorType::Timeout => timed_out(),
            _ => ApiError::new(500, "server_error", "run_failed", self.message).final_error(),
        };
        error.with("run_id", run_id)
    }
}

pub(crate) fn unavailable(message: String, retry_after: Option<u64>) -> ApiError {
    ApiError::new(503, "server_error", "backend_unavailable", message).retry_after(retry_after.unwrap_or(1))
}

/// Returns the error for a request that the backend rejects. One that is too long, or has images, is the client's.
pub(crate) fn rejected(message: String, status: Option<u16>) -> ApiError {
    let text = message.to_ascii_lowercase();
    if status == Some(413) || TOO_LONG.iter().any(|phrase| text.contains(phrase)) {
        let error = ApiError::invalid("messages".to_owned(), message);
        return ApiError { code: "context_length_exceeded", ..error };
    }
    // The runner writes this message when it does not send a request.
    if let (None, Some((backend, name))) = (status, unsupported_parameter(&message)) {
        return unsupported_by(backend, name);
    }
    if text.contains("take no images") {
        return ApiError {
            code: "unsupported_parameter",
            ..ApiError::invalid("messages".to_owned(), message)
        };
    }
    ApiError::new(502, "server_error", "backend_rejected", message).final_error()
}

/// Returns the error for a sampling parameter that a backend does not know.
pub(crate) fn unsupported_by(backend: &str, name: &str) -> ApiError {
    let message = unsupported_message(backend, name);
    ApiError { message, ..ApiError::unsupported(name) }
}

/// Returns the backend and the parameter of [`unsupported_message`].
fn unsupported_parameter(message: &str) -> Option<(&str, &str)> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let (backend, name) = (quoted.next()?, quoted.next()?);
    (message == unsupported_message(backend, name)).then_some((backend, name))
}

pub(crate) fn timed_out() -> ApiError {
    let message = "no answer within the time limit of the request; raise the client's timeout";
    ApiError::new(504, "server_error", "deadline_exceeded", message).final_error()
}

pub(crate) fn internal(error: &dyn std::error::Error) -> ApiError {
    tracing::error!("a request of the gateway failed: {error}");
    ApiError::new(500, "server_error", "internal_error", "internal error; see the server's log").final_error()
}

//! Errors in the form of OpenAI's API.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use slipform_api::{Code, ErrorBody};

/// The longest `Retry-After` in seconds. Clients ignore longer ones.
const RETRY_AFTER_SECONDS_MAX: u64 = 120;

/// The header with which a server tells the SDKs whether to repeat a request.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// An error of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// The HTTP status. Never 409, which SDKs repeat.
    pub status: u16,
    /// The class of the error, for programs.
    pub kind: &'static str,
    /// The error, for programs.
    pub code: &'static str,
    /// The message, for people.
    pub message: String,
    /// The member of the request that is wrong.
    pub param: Option<String>,
    /// Further members.
    pub details: Box<Map<String, Value>>,
    /// The seconds after which a request may succeed.
    pub retry_after: Option<u64>,
    /// Whether the SDKs repeat the request.
    pub is_final: bool,
}

impl ApiError {
    /// Creates an error about the request.
    pub fn invalid(param: impl Into<Option<String>>, message: impl Into<String>) -> ApiError {
        ApiError::new(400, "invalid_request_error", "invalid_request", message).about(param)
    }

    /// Creates an error about a JSON Schema in the request.
    pub(crate) fn schema(param: String, message: String) -> ApiError {
        ApiError { code: "invalid_json_schema", ..ApiError::invalid(param, message) }
    }

    /// Creates an error about a member that cannot be honoured.
    pub(crate) fn unsupported(param: &str) -> ApiError {
        let message = format!("`{param}` is not supported; remove it from the request");
        ApiError { code: "unsupported_parameter", ..ApiError::invalid(param.to_owned(), message) }
    }

    pub(crate) fn new(
        status: u16,
        kind: &'static str,
        code: &'static str,
        message: impl Into<String>,
    ) -> ApiError {
        ApiError {
            status,
            kind,
            code,
            message: message.into(),
            param: None,
            details: Box::default(),
            retry_after: None,
            is_final: false,
        }
    }

    fn about(self, param: impl Into<Option<String>>) -> ApiError {
        ApiError { param: param.into(), ..self }
    }

    /// Returns the error with a further member.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> ApiError {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Returns the error that SDKs do not answer with the same request.
    pub(crate) fn final_error(self) -> ApiError {
        ApiError { is_final: true, ..self }
    }

    /// Returns the error with the time after which the request may succeed.
    pub(crate) fn retry_after(self, seconds: u64) -> ApiError {
        ApiError { retry_after: Some(seconds.clamp(1, RETRY_AFTER_SECONDS_MAX)), ..self }
    }

    /// Returns the body of the response.
    pub fn body(&self) -> Value {
        let mut error =
            json!({"message": self.message, "type": self.kind, "param": self.param, "code": self.code});
        if let Some(members) = error.as_object_mut() {
            members.extend(self.details.as_ref().clone());
        }
        json!({"error": error})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut headers = HeaderMap::new();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.is_final {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        (status, headers, Json(self.body())).into_response()
    }
}

/// Converts an error of the coordinator.
impl From<slipform_api::Error> for ApiError {
    fn from(error: slipform_api::Error) -> ApiError {
        let (status, kind, code) = class_of(error.code);
        // The message of the API suggests `queue`, which requests to the gateway do not have.
        let message = match error.code {
            Code::SessionBusy => "the session is busy with another run; wait for its end".to_owned(),
            _ => error.message,
        };
        let converted = ApiError::new(status, kind, code, message);
        match error.code {
            Code::Unavailable | Code::RateLimited => converted.retry_after(1),
            _ => converted,
        }
    }
}

/// Returns status, class and code of an error of the coordinator.
fn class_of(code: Code) -> (u16, &'static str, &'static str) {
    match code {
        Code::Unauthorized => (401, "authentication_error", "invalid_api_key"),
        Code::Forbidden => (403, "permission_error", "permission_denied"),
        Code::AgentNotFound => (404, "invalid_request_error", "model_not_found"),
        Code::SchemaNotFound | Code::SessionNotFound | Code::RunNotFound | Code::NotFound => {
            (404, "invalid_request_error", "not_found")
        }
        Code::MethodNotAllowed => (405, "invalid_request_error", "method_not_allowed"),
        Code::PayloadTooLarge => (413, "invalid_request_error", "payload_too_large"),
        Code::UnsupportedMediaType => (415, "invalid_request_error", "unsupported_media_type"),
        Code::RateLimited => (429, "rate_limit_error", "rate_limit_exceeded"),
        Code::Unavailable => (503, "server_error", "unavailable"),
        Code::Internal => (500, "server_error", "internal_error"),
        // SDKs repeat requests that are answered with 409.
        _ => (400, "invalid_request_error", "invalid_request"),
    }
}

/// Returns the body for an error before a request has reached its handler.
pub fn error_message(error: &ErrorBody) -> Value {
    let (_, kind, code) = class_of(error.error);
    ApiError::new(error.status_code, kind, code, error.message.clone()).body()
}

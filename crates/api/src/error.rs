//! API errors.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Machine-readable error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Code {
    /// The request is malformed.
    InvalidRequest,
    /// The token is missing, unknown or revoked.
    Unauthorized,
    /// The token's scope does not allow the request, or the request comes from a foreign host or origin.
    Forbidden,
    /// No agent has this name.
    AgentNotFound,
    /// No schema has this name.
    SchemaNotFound,
    /// No session has this id.
    SessionNotFound,
    /// No run has this id.
    RunNotFound,
    /// No route has this path.
    NotFound,
    /// An agent of this name exists.
    AgentExists,
    /// A schema of this name exists.
    SchemaExists,
    /// The agent has its own output schema, which a request cannot override.
    OutputSchemaConflict,
    /// The session has a run that has not ended.
    SessionBusy,
    /// The session's agent cannot be resumed.
    NotResumable,
    /// The run has not ended.
    NotFinished,
    /// The attempt is not the run's latest, or its lease has expired.
    StaleAttempt,
    /// The idempotency key belongs to a request with another body.
    IdempotencyConflict,
    /// The agent or schema is defined by a file or shipped with the program, so the API cannot change it.
    ManagedByFile,
    /// The agent has changed since the version that `If-Match` names.
    PreconditionFailed,
    /// The path exists, but not for this method.
    MethodNotAllowed,
    /// The body exceeds the size limit.
    PayloadTooLarge,
    /// The content type is not JSON.
    UnsupportedMediaType,
    /// The schema does not compile.
    InvalidSchema,
    /// The parameters do not satisfy the agent's parameters schema.
    InvalidParameters,
    /// The blueprint is invalid.
    InvalidAgent,
    /// The result does not satisfy its contract.
    InvalidResult,
    /// Too many requests; retry later.
    RateLimited,
    /// A bug or a corrupt database; the server's log has details.
    Internal,
    /// The database is unavailable or the server is shutting down; retry later.
    Unavailable,
}

impl Code {
    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        use Code::*;
        match self {
            InvalidRequest => 400,
            Unauthorized => 401,
            Forbidden => 403,
            AgentNotFound | SchemaNotFound | SessionNotFound | RunNotFound | NotFound => 404,
            MethodNotAllowed => 405,
            AgentExists | SchemaExists | OutputSchemaConflict | SessionBusy | NotResumable | NotFinished
            | StaleAttempt | IdempotencyConflict | ManagedByFile => 409,
            PreconditionFailed => 412,
            PayloadTooLarge => 413,
            UnsupportedMediaType => 415,
            InvalidSchema | InvalidParameters | InvalidAgent | InvalidResult => 422,
            RateLimited => 429,
            Internal => 500,
            Unavailable => 503,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_passing(self) -> bool {
        matches!(self, Code::RateLimited | Code::Unavailable)
    }
}

/// An error of the API.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The code, for programs.
    pub code: Code,
    /// The explanation, for people: what happened, where, and what to do.
    pub message: String,
    /// Data that depends on the code, such as `validation_errors`.
    pub details: Option<Value>,
}

impl Error {
    /// Creates an error without details.
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), details: None }
    }

    /// Sets the details.
    #[must_use]
    pub fn with(self, details: Value) -> Error {
        Error { details: Some(details), ..self }
    }

    /// Returns the JSON body of the error response.
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            error: self.code,
            message: self.message.clone(),
            details: self.details.clone(),
            status_code: self.code.status(),
        }
    }
}

/// JSON body of every error response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Machine-readable error code.
    pub error: Code,
    /// Explanation for people.
    pub message: String,
    /// Data that depends on the code, such as `validation_errors`; null for most codes.
    pub details: Option<Value>,
    /// HTTP status of the response.
    pub status_code: u16,
}

impl From<ErrorBody> for Error {
    fn from(body: ErrorBody) -> Error {
        Error { code: body.error, message: body.message, details: body.details }
    }
}

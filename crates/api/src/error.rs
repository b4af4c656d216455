//! Refusals.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What went wrong, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Code {
    /// The request is not one.
    InvalidRequest,
    /// A token is needed, or is not known.
    Unauthorized,
    /// The token may not do this, or the request comes from where it may not.
    Forbidden,
    /// There is no such agent.
    AgentNotFound,
    /// There is no such schema.
    SchemaNotFound,
    /// There is no such session.
    SessionNotFound,
    /// There is no such run.
    RunNotFound,
    /// There is nothing at this address.
    NotFound,
    /// The name is taken.
    AgentExists,
    /// The name is taken.
    SchemaExists,
    /// The agent has an output schema of its own.
    OutputSchemaConflict,
    /// The session has a run that has not ended.
    SessionBusy,
    /// The session's agent cannot be resumed.
    NotResumable,
    /// The run has not ended.
    NotFinished,
    /// The attempt is not the run's latest.
    StaleAttempt,
    /// The key was used for something else.
    IdempotencyConflict,
    /// A file says what it is; change the file.
    ManagedByFile,
    /// The address takes other methods.
    MethodNotAllowed,
    /// The body is too long.
    PayloadTooLarge,
    /// The body is not JSON.
    UnsupportedMediaType,
    /// The schema cannot be used.
    InvalidSchema,
    /// The agent does not take these parameters.
    InvalidParameters,
    /// The agent cannot be used.
    InvalidAgent,
    /// The result does not satisfy its contract.
    InvalidResult,
    /// Too much at once; try again later.
    RateLimited,
    /// A fault of ours.
    Internal,
    /// The database does not answer, or the server is going down; try again later.
    Unavailable,
}

impl Code {
    /// The status code that goes with it.
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
            PayloadTooLarge => 413,
            UnsupportedMediaType => 415,
            InvalidSchema | InvalidParameters | InvalidAgent | InvalidResult => 422,
            RateLimited => 429,
            Internal => 500,
            Unavailable => 503,
        }
    }

    /// Whether asking again later may help.
    pub fn is_passing(self) -> bool {
        matches!(self, Code::RateLimited | Code::Unavailable)
    }
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What went wrong, for programs.
    pub code: Code,
    /// The same for people: what, where, and what to do.
    pub message: String,
    /// Whatever else a program may need.
    pub details: Option<Value>,
}

impl Error {
    /// A refusal without details.
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), details: None }
    }

    /// The same with details.
    #[must_use]
    pub fn with(self, details: Value) -> Error {
        Error { details: Some(details), ..self }
    }

    /// The same as it is sent.
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            error: self.code,
            message: self.message.clone(),
            details: self.details.clone(),
            status_code: self.code.status(),
        }
    }
}

/// A refusal as it is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong, for programs.
    pub error: Code,
    /// The same for people.
    pub message: String,
    /// Whatever else a program may need.
    pub details: Option<Value>,
    /// The status code of the answer.
    pub status_code: u16,
}

impl From<ErrorBody> for Error {
    fn from(body: ErrorBody) -> Error {
        Error { code: body.error, message: body.message, details: body.details }
    }
}

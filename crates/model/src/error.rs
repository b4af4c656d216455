//! The crate's error type.

use std::time::Duration;

use slipform_types::{CallError, CallErrorKind};

use crate::error_text::{MESSAGE_CHARACTERS_MAX, shortened};
use crate::secret::Secret;

/// The most characters shown of a body with an unexpected content type.
const START_CHARACTERS_MAX: usize = 200;

/// The reason why a call returned no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The connection failed or was lost before the response began.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// The URL of the request.
        url: String,
        /// The innermost cause, as reported by the network stack.
        reason: String,
    },
    /// The backend exceeded one of the timeouts in its settings.
    #[error("{what} took longer than {} s; raise {setting} in slipform.toml if that is normal", limit.as_secs_f64())]
    Timeout {
        /// The part of the call that took too long, as the subject of the message.
        what: &'static str,
        /// The key of the timeout in `slipform.toml`.
        setting: &'static str,
        /// The value of that setting.
        limit: Duration,
    },
    /// The backend is overloaded or failing: status 408, 429 or 5xx.
    #[error("the backend answered {status}: {message}")]
    Busy {
        /// The HTTP status, or the equivalent of an error event in a stream.
        status: u16,
        /// The server's error message on one line.
        message: String,
        /// The wait requested by a `Retry-After` header.
        retry_after: Option<Duration>,
    },
    /// The backend rejects the request: any other 4xx status.
    #[error("the backend refused the request with {status}: {message}")]
    Rejected {
        /// The HTTP status, or the equivalent of an error event in a stream.
        status: u16,
        /// The server's error message on one line.
        message: String,
    },
    /// The reply ended early or violates the protocol.
    #[error("the reply is incomplete: {reason}")]
    Incomplete {
        /// The missing or malformed part.
        reason: String,
    },
    /// The reply exceeds a size limit.
    #[error("the reply is larger than {limit} bytes")]
    TooLarge {
        /// The exceeded limit, in bytes.
        limit: usize,
    },
    /// The backend sent a redirect. It is not followed, because that could send the key to another host.
    #[error("the backend redirects ({status}) to {location}; put the final address into base_url")]
    Redirected {
        /// The 3xx status.
        status: u16,
        /// The `Location` header.
        location: String,
    },
    /// The response is neither JSON nor an event stream, so the server is probably not a model server.
    #[error("the backend answered with '{content_type}' instead of JSON or an event stream: {start}")]
    ContentType {
        /// The `Content-Type` header.
        content_type: String,
        /// The first 200 characters of the body.
        start: String,
    },
    /// The settings or the environment are invalid.
    #[error("{0}")]
    Settings(String),
    /// The embedded model failed.
    #[error("the embedded model {reason}")]
    Embedded {
        /// The HTTP status a server would send: 413 if the prompt is too long, 422 if no grammar expresses the
        /// schema. `None` if a different request would fail as well.
        status: Option<u16>,
        /// The cause and, where one is known, the remedy.
        reason: String,
    },
    /// The program of a `command` backend failed.
    #[error("{program} {reason}")]
    Program {
        /// The first element of the backend's `command`.
        program: String,
        /// The failure, with the end of the program's stderr.
        reason: String,
    },
}

impl Error {
    /// Returns whether a retry of the same request may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::Busy { .. } | Error::Incomplete { .. } => true,
            Error::Timeout { setting, .. } => *setting != "timeout_seconds",
            _ => false,
        }
    }

    /// Converts the error into its journal form.
    pub fn to_call_error(&self) -> CallError {
        let (kind, status) = match self {
            Error::Rejected { status, .. } => (CallErrorKind::Rejected, Some(*status)),
            Error::Embedded { status, .. } => (CallErrorKind::Rejected, *status),
            Error::Settings(_) | Error::Redirected { .. } | Error::ContentType { .. } => {
                (CallErrorKind::Rejected, None)
            }
            Error::Busy { status, .. } => (CallErrorKind::Unavailable, Some(*status)),
            _ => (CallErrorKind::Unavailable, None),
        };
        let retry_after_seconds = match self {
            Error::Busy { retry_after: Some(wait), .. } => Some(wait.as_secs_f64().ceil() as u64),
            _ => None,
        };
        CallError { kind, status, retry_after_seconds, message: self.to_string() }
    }

    /// Removes a secret from all texts of the error and then shortens them.
    ///
    /// The order matters: a key cut in half would not be recognized.
    pub(crate) fn redacted(self, secret: &Secret) -> Error {
        let clean = |text: String| shortened(secret.redact(text), MESSAGE_CHARACTERS_MAX);
        match self {
            Error::Unreachable { url, reason } => {
                Error::Unreachable { url: clean(url), reason: clean(reason) }
            }
            Error::Busy { status, message, retry_after } => {
                Error::Busy { status, message: clean(message), retry_after }
            }
            Error::Rejected { status, message } => Error::Rejected { status, message: clean(message) },
            Error::Incomplete { reason } => Error::Incomplete { reason: clean(reason) },
            Error::Redirected { status, location } => Error::Redirected { status, location: clean(location) },
            Error::ContentType { content_type, start } => Error::ContentType {
                content_type: clean(content_type),
                start: shortened(clean(start), START_CHARACTERS_MAX),
            },
            Error::Program { program, reason } => Error::Program { program, reason: clean(reason) },
            other @ (Error::Timeout { .. }
            | Error::TooLarge { .. }
            | Error::Settings(_)
            | Error::Embedded { .. }) => other,
        }
    }
}

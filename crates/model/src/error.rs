//! What can go wrong between a request and a reply.

use std::time::Duration;

use slipform_types::{CallError, CallErrorKind};

use crate::error_text::{MESSAGE_CHARACTERS_MAX, shortened};
use crate::secret::Secret;

/// How much is shown of a page that is not an answer: enough to recognise it.
const START_CHARACTERS_MAX: usize = 200;

/// Why a call gave no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No connection, or it broke.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// Where to.
        url: String,
        /// What the network said.
        reason: String,
    },
    /// The backend took too long.
    #[error("{what} took longer than {} s; raise {setting} in slipform.toml if that is normal", limit.as_secs_f64())]
    Timeout {
        /// Which part of the call.
        what: &'static str,
        /// The setting that bounds it.
        setting: &'static str,
        /// The bound.
        limit: Duration,
    },
    /// The backend is overloaded or broken: 408, 429, 5xx.
    #[error("the backend answered {status}: {message}")]
    Busy {
        /// Its status code.
        status: u16,
        /// Its words.
        message: String,
        /// When it asks to be tried again.
        retry_after: Option<Duration>,
    },
    /// The backend does not take the request: any other 4xx.
    #[error("the backend refused the request with {status}: {message}")]
    Rejected {
        /// Its status code.
        status: u16,
        /// Its words.
        message: String,
    },
    /// The reply broke off or is not what the protocol says.
    #[error("the reply is incomplete: {reason}")]
    Incomplete {
        /// What is missing or malformed.
        reason: String,
    },
    /// The reply is larger than anything a model would write.
    #[error("the reply is larger than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
    /// The backend points elsewhere; following could carry a key to a stranger.
    #[error("the backend redirects ({status}) to {location}; put the final address into base_url")]
    Redirected {
        /// Its status code.
        status: u16,
        /// Where it points.
        location: String,
    },
    /// Something else than a model answers at that address.
    #[error("the backend answered with '{content_type}' instead of JSON or an event stream: {start}")]
    ContentType {
        /// What it sent.
        content_type: String,
        /// The first words of it.
        start: String,
    },
    /// The settings cannot work.
    #[error("{0}")]
    Settings(String),
    /// The model in this process cannot do it.
    #[error("the embedded model {reason}")]
    Embedded {
        /// The status that a server would give: 413 for a prompt that does not fit, 422 for a schema that
        /// no grammar expresses; none where no other request would fare better.
        status: Option<u16>,
        /// What is wrong and what to do about it.
        reason: String,
    },
    /// A command backend failed.
    #[error("{program} {reason}")]
    Program {
        /// The program.
        program: String,
        /// How it failed, with the end of what it wrote to stderr.
        reason: String,
    },
}

impl Error {
    /// Whether asking again may help.
    pub fn is_passing(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::Busy { .. } | Error::Incomplete { .. } => true,
            Error::Timeout { setting, .. } => *setting != "timeout_seconds",
            _ => false,
        }
    }

    /// The error as the journal keeps it.
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
        CallError { kind, status, message: self.to_string() }
    }

    /// The same error with a secret taken out of every text in it, and with texts short enough to be shown.
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

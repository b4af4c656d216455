//! The errors for schemas that cannot be used.

use thiserror::Error;

/// A schema that cannot be used, with the location of the error inside it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The document is not a valid JSON Schema of its draft.
    #[error("{path}: {message}")]
    Invalid {
        /// JSONPath inside the schema.
        path: String,
        /// The problem at `path`, worded like a violation.
        message: String,
    },
    /// A reference leaves the document, or its target does not exist.
    #[error("{path}: the reference '{reference}' cannot be resolved: {reason}")]
    Reference {
        /// JSONPath of the reference inside the schema.
        path: String,
        /// The reference as written in the document; empty if it is unknown.
        reference: String,
        /// The reason, and how to fix it.
        reason: String,
    },
    /// A reference leads back to itself on the same instance, so validation could never end.
    #[error("{path}: this reference leads back to itself, so no value could ever be checked against it")]
    Cycle {
        /// JSONPath of the schema that contains itself.
        path: String,
    },
    /// The schema exceeds a limit.
    #[error("{what} is {found}, more than the {limit} allowed; {advice}")]
    TooLarge {
        /// The quantity that was measured, such as "the number of subschemas".
        what: &'static str,
        /// The measured quantity, or the point at which measuring stopped.
        found: u64,
        /// The highest allowed quantity, in the same unit as `found`.
        limit: u64,
        /// The recommended change to the schema.
        advice: &'static str,
    },
    /// The compiled schema would need too much memory.
    #[error("{path}: {what} would take {found} bytes of memory, more than the {limit} allowed; {advice}")]
    TooMuchMemory {
        /// JSONPath of the part that needs the most. Cut if it is very long.
        path: String,
        /// The quantity that was estimated, and its relation to the part at `path`.
        what: &'static str,
        /// The estimate when it exceeded the limit.
        found: u64,
        /// The highest allowed estimate.
        limit: u64,
        /// The recommended change to the schema.
        advice: &'static str,
    },
}

impl Error {
    pub(crate) fn too_large(what: &'static str, found: u64, limit: u64, advice: &'static str) -> Error {
        Error::TooLarge { what, found, limit, advice }
    }
}

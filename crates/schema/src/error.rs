//! Why a schema was refused.

use thiserror::Error;

/// A schema that cannot be used, with the place of the fault inside it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The document is not a valid JSON Schema of its draft.
    #[error("{path}: {message}")]
    Invalid {
        /// JSONPath inside the schema.
        path: String,
        /// What is wrong there.
        message: String,
    },
    /// A reference leaves the document, or leads nowhere inside it.
    #[error("{path}: the reference '{reference}' cannot be resolved: {reason}")]
    Reference {
        /// JSONPath of the reference inside the schema.
        path: String,
        /// The reference as written.
        reference: String,
        /// Why it was refused.
        reason: String,
    },
    /// A reference leads back to itself without consuming any of the instance.
    #[error("{path}: this reference leads back to itself, so no value could ever be checked against it")]
    Cycle {
        /// JSONPath inside the schema.
        path: String,
    },
    /// The schema is larger than a schema may be.
    #[error("{what} is {found}, more than the {limit} allowed; {advice}")]
    TooLarge {
        /// What was measured.
        what: &'static str,
        /// What was found, or the point at which measuring stopped.
        found: u64,
        /// The limit.
        limit: u64,
        /// What to do about it.
        advice: &'static str,
    },
}

impl Error {
    pub(crate) fn too_large(what: &'static str, found: u64, limit: u64, advice: &'static str) -> Error {
        Error::TooLarge { what, found, limit, advice }
    }
}

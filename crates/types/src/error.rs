//! The error for malformed values of this crate's types.

use thiserror::Error;

/// A text that is not a valid value of its type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A text that is not an id of the expected kind.
    #[error("'{text}' is not a {kind} id; one looks like '{prefix}0123456789ab'")]
    Id {
        /// The kind of object that the id identifies: `session` or `run`.
        kind: &'static str,
        /// The prefix of ids of this kind, such as `ses_`.
        prefix: &'static str,
        /// The text as given, shortened to 40 characters.
        text: String,
    },
    /// A text that is not the value of a `traceparent` header.
    #[error(
        "not a `traceparent` header; one looks like '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'"
    )]
    TraceParent,
}

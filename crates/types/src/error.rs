//! What can be wrong with a word of the vocabulary.

use thiserror::Error;

/// A text that is not what its type says.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A text that is not an id of its kind.
    #[error("'{text}' is not a {kind} id; one looks like '{prefix}0123456789ab'")]
    Id {
        /// What the id was meant to name.
        kind: &'static str,
        /// How ids of this kind begin.
        prefix: &'static str,
        /// The text as given, cut when it is long.
        text: String,
    },
}

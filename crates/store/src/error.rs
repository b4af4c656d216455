//! What can go wrong with a store.

/// Why a verb has no answer. A refusal is an answer, and no error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The database's address is not one.
    #[error("{0}")]
    Address(String),
    /// Another process has the database.
    #[error("{0}")]
    Locked(String),
    /// The database is of a kind or an age that is not worked with.
    #[error("{0}")]
    Unsuitable(String),
    /// The database cannot keep what it was given, now or later.
    #[error("it cannot be kept: {0}")]
    Invalid(String),
    /// The database cannot be reached, or is too busy. Whether the transaction took place is not known.
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    /// The database holds what it should not.
    #[error("the database is damaged: {0}")]
    Damaged(String),
}

//! Errors of the store.

/// Why an operation failed. Refusals such as [`Stale`](crate::Stale) are results, not errors.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The store address cannot be parsed.
    #[error("{0}")]
    Address(String),
    /// Another process holds the exclusive lock on the database.
    #[error("{0}")]
    Locked(String),
    /// The database cannot be used: its version, permissions or contents do not fit. Retrying does not help.
    #[error("{0}")]
    Unsuitable(String),
    /// The database rejects the data. Retrying does not help.
    #[error("the database cannot store the data: {0}")]
    Invalid(String),
    /// The database cannot be reached or is overloaded. The caller cannot know whether the transaction
    /// committed.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// Stored data is corrupt or violates an invariant.
    #[error("the database is damaged: {0}")]
    Damaged(String),
}

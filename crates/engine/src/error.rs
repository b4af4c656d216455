//! What can be wrong with a journal.

/// A journal that no runner of ours would have written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stored contract does not compile.
    #[error("the contract's schema cannot be used")]
    Schema(#[from] slipform_schema::Error),
    /// An event stands where it cannot.
    #[error("the journal is broken: {0}")]
    Journal(&'static str),
}

//! Errors of folding a journal.

/// A journal that the engine cannot fold. Runners never write such a journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The schema of the stored contract does not compile.
    #[error("the contract's schema does not compile")]
    Schema(#[from] slipform_schema::Error),
    /// An event does not fit the events before it; the text names the mismatch.
    #[error("the journal is invalid: {0}")]
    Journal(&'static str),
}

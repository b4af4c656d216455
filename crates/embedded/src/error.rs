//! What can go wrong with a model inside the process.

use std::path::PathBuf;

/// What can go wrong with a model inside the process.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of weights cannot be read.
    #[error("cannot read the model file {path}: check the path and its permissions")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not GGUF, or is cut short or damaged.
    #[error("the model file is not sound GGUF: {0}; fetch it again")]
    Malformed(String),
    /// The file is sound, but holds a model this runtime cannot run.
    #[error("the model file holds the architecture `{found}`; supported are {supported}")]
    Architecture {
        /// What the file holds.
        found: String,
        /// What could be run.
        supported: &'static str,
    },
    /// The file is sound, but asks for something this runtime does not do.
    #[error("the model needs what this runtime does not do: {0}")]
    Unsupported(String),
    /// More tokens than the model can remember.
    #[error(
        "{tokens} tokens do not fit into the {context} the model can remember; shorten the prompt or ask for less"
    )]
    Context {
        /// How many there would have been.
        tokens: usize,
        /// How many there can be.
        context: usize,
    },
    /// A token that is not in the vocabulary.
    #[error("token {token} is outside the vocabulary of {vocabulary}")]
    Token {
        /// The token.
        token: u32,
        /// How many tokens there are.
        vocabulary: usize,
    },
    /// There was nothing to read.
    #[error("the model was given no tokens to read")]
    NoTokens,
    /// The caller no longer wants the answer.
    #[error("reading was cancelled")]
    Cancelled,
    /// The arithmetic failed.
    #[error("the model's arithmetic failed")]
    Compute(#[from] candle_core::Error),
    /// The vocabulary in the file cannot be used.
    #[error("the model file's tokenizer cannot be used: {0}")]
    Tokenizer(String),
    /// The chat template in the file cannot be used.
    #[error("the model file's chat template cannot be used: {0}")]
    Template(String),
    /// The runtime behind the feature `llama` failed.
    #[error("llama.cpp failed: {0}")]
    Llama(String),
}

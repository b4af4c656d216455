//! The crate's error type.

use std::path::PathBuf;
use std::time::Duration;

use crate::grammar::CLOSING_TOKENS_MAX;

/// The reason why the embedded model cannot be loaded or cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of weights is missing or unreadable.
    #[error("cannot read the model file {path}: check the path and its permissions")]
    Open {
        /// The path of the weights.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file is not GGUF, or is truncated or damaged.
    #[error("the model file is not valid GGUF: {0}; fetch it again")]
    Malformed(String),
    /// The file is valid, but its architecture is not implemented.
    #[error("the model file has the architecture `{found}`; supported are {supported}")]
    Architecture {
        /// The value of `general.architecture`.
        found: String,
        /// The supported architectures, as a list for messages.
        supported: &'static str,
    },
    /// The file is valid, but uses a feature that is not implemented.
    #[error("the model needs a feature that this runtime does not support: {0}")]
    Unsupported(String),
    /// An evaluation would exceed the context.
    #[error(
        "{tokens} tokens exceed the model's context of {context} tokens; shorten the prompt or ask for less"
    )]
    Context {
        /// The tokens in the context after the evaluation.
        tokens: usize,
        /// The context length in tokens.
        context: usize,
    },
    /// A token id is not in the vocabulary.
    #[error("token {token} is outside the vocabulary of {vocabulary} tokens")]
    Token {
        /// The invalid id.
        token: u32,
        /// The size of the vocabulary.
        vocabulary: usize,
    },
    /// An evaluation was requested without tokens.
    #[error("no tokens to evaluate")]
    NoTokens,
    /// The caller cancelled the call.
    #[error("the call was cancelled")]
    Cancelled,
    /// The deadline passed during the evaluation of the prompt.
    #[error("the deadline passed before the prompt was evaluated")]
    Late,
    /// The deadline passed before the end of a free text.
    #[error("the deadline passed before the answer was complete")]
    LateAnswer,
    /// The logits are NaN, so the weights are damaged.
    #[error("the weights produce values that are not numbers; fetch the file again")]
    NotNumbers,
    /// The prompt leaves no room for an answer.
    #[error(
        "the prompt has {tokens} tokens and the model's context is {context} tokens; shorten the prompt or use a \
         backend with a larger context"
    )]
    PromptTooLong {
        /// The length of the prompt in tokens.
        tokens: usize,
        /// The context length in tokens, for prompt and answer together.
        context: usize,
    },
    /// The shortest valid answer exceeds the token budget.
    #[error(
        "the shortest answer to this schema has {needed} tokens, and max_tokens allows {budget}; raise it"
    )]
    BudgetTooSmall {
        /// The tokens of the shortest answer.
        needed: usize,
        /// The token budget.
        budget: usize,
    },
    /// The schema has no grammar, or its grammar failed during decoding.
    #[error("the schema cannot be enforced by a grammar: {0}")]
    Grammar(String),
    /// No token of the vocabulary is allowed by the grammar.
    #[error("the grammar of the schema allows no token")]
    NoToken,
    /// No completion of the answer was found.
    #[error(
        "found no answer to this schema with at most {CLOSING_TOKENS_MAX} tokens; ask for less in one answer"
    )]
    NoClosing,
    /// The tool that must be called is not defined in the request.
    #[error("the tool `{0}` must be called but is not among the tools of the request")]
    UnknownTool(String),
    /// A choice between tools and result is not valid JSON. The grammar prevents this.
    #[error("the choice between tools and result is not valid JSON")]
    Unreadable,
    /// The operating system did not start the model's thread.
    #[error("cannot start a thread for the model: {0}")]
    Thread(String),
    /// The model's thread panicked.
    #[error("the model's thread panicked; this is a bug in Slipform")]
    Broken,
    /// A tensor operation failed.
    #[error("a tensor operation of the model failed")]
    Compute(#[from] candle_core::Error),
    /// The vocabulary of the file is invalid or not supported.
    #[error("the model file's tokenizer cannot be used: {0}")]
    Tokenizer(String),
    /// The chat template of the file is invalid or exceeds a limit.
    #[error("the model file's chat template cannot be used: {0}")]
    Template(String),
    /// The runtime of the cargo feature `llama` failed.
    #[error("llama.cpp failed: {0}")]
    Llama(String),
}

impl Error {
    pub(crate) fn grammar(error: impl std::fmt::Display) -> Error {
        Error::Grammar(format!("{error:#}"))
    }

    /// Converts the error for the caller of the backend. `limit` is the backend's timeout.
    pub(crate) fn into_call(self, limit: Duration) -> slipform_model::Error {
        let status = match &self {
            Error::Late | Error::LateAnswer => {
                let what = if matches!(self, Error::Late) { "reading the prompt" } else { "the answer" };
                return slipform_model::Error::Timeout { what, setting: "timeout_seconds", limit };
            }
            // With this status the engine may retry without a grammar.
            Error::Grammar(_) | Error::NoToken | Error::NoClosing => Some(422),
            Error::PromptTooLong { .. } | Error::Context { .. } => Some(413),
            _ => None,
        };
        let mut reason = format!("cannot answer: {self}");
        let mut source = std::error::Error::source(&self);
        while let Some(cause) = source {
            reason.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        slipform_model::Error::Embedded { status, reason }
    }
}

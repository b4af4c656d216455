//! What can go wrong with a model inside the process.

use std::path::PathBuf;
use std::time::Duration;

use crate::grammar::CLOSING_TOKENS_MAX;

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
    /// The time was over before the prompt was read.
    #[error("the time was over before the prompt was read")]
    Late,
    /// The time was over before the text was at its end.
    #[error("the time was over before the answer was at its end")]
    LateAnswer,
    /// The weights make no sense.
    #[error("the weights give no numbers to go by; fetch the file again")]
    NotNumbers,
    /// The prompt leaves no room for an answer.
    #[error(
        "the prompt has {tokens} tokens, and the model can remember {context}; shorten it or use a backend with a larger context"
    )]
    PromptTooLong {
        /// The prompt's length.
        tokens: usize,
        /// How many there can be, with the answer.
        context: usize,
    },
    /// Even the shortest answer is longer than the budget.
    #[error(
        "the shortest answer to this schema has {needed} tokens, and max_tokens allows {budget}; raise it"
    )]
    BudgetTooSmall {
        /// Tokens of the shortest answer.
        needed: usize,
        /// Tokens that are allowed.
        budget: usize,
    },
    /// The schema cannot be made into a grammar, or the grammar cannot go on.
    #[error("the schema cannot be enforced by a grammar: {0}")]
    Grammar(String),
    /// The grammar allows nothing that the vocabulary could write.
    #[error("the grammar of the schema allows no token")]
    NoToken,
    /// No end of the answer could be found.
    #[error(
        "no answer to this schema was found that has at most {CLOSING_TOKENS_MAX} tokens; ask for less in one answer"
    )]
    NoClosing,
    /// A tool that has to be called is not among those given.
    #[error("the tool `{0}` has to be called and is not among the tools")]
    UnknownTool(String),
    /// A choice that is no JSON, which its grammar excludes.
    #[error("the choice between tools and result cannot be read")]
    Unreadable,
    /// The model's thread cannot be started.
    #[error("no thread can be started for the model: {0}")]
    Thread(String),
    /// The model's thread ended in the middle of an answer.
    #[error("the model broke down; this is a defect in Slipform")]
    Broken,
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

impl Error {
    pub(crate) fn grammar(error: impl std::fmt::Display) -> Error {
        Error::Grammar(format!("{error:#}"))
    }

    /// The same for whoever called the backend.
    pub(crate) fn into_call(self, limit: Duration) -> slipform_model::Error {
        let status = match &self {
            Error::Late | Error::LateAnswer => {
                let what = if matches!(self, Error::Late) { "reading the prompt" } else { "the answer" };
                return slipform_model::Error::Timeout { what, setting: "timeout_seconds", limit };
            }
            // Words alone may still do.
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

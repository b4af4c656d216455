//! Why a call has no result. The messages are read by models, who may do better the next time.

use std::time::Duration;

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody has a tool of this name.
    #[error("there is no tool '{name}'; there are: {known}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The tool does not do this with this path.
    #[error("'{path}' {reason}")]
    Path {
        /// The path as it was given.
        path: String,
        /// Why not, and what would do.
        reason: String,
    },
    /// A pattern cannot be understood.
    #[error("the pattern '{pattern}' cannot be used: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why not.
        reason: String,
    },
    /// The arguments satisfy their schema and make no sense all the same.
    #[error("{0}")]
    Arguments(String),
    /// The call took too long.
    #[error("the tool '{tool}' took longer than {} s and was stopped", limit.as_secs_f64())]
    Timeout {
        /// The tool.
        tool: String,
        /// How long it might take.
        limit: Duration,
    },
    /// An MCP server cannot be used.
    #[error("the MCP server '{server}' {reason}")]
    Server {
        /// Its name in the blueprint.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The tool was called and says that it failed.
    #[error("{0}")]
    Failed(String),
}

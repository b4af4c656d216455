//! Errors of tool calls. Models read the messages and may correct their next call.

use std::time::Duration;

/// A tool call that has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run has no tool with this name.
    #[error("there is no tool '{name}'; there are: {known}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The available names, separated by commas.
        known: String,
    },
    /// The tool cannot use this path: it is missing, protected, outside the project or of the wrong type.
    #[error("'{path}' {reason}")]
    Path {
        /// The path as the model wrote it.
        path: String,
        /// The cause and, where possible, an alternative.
        reason: String,
    },
    /// A glob or regular expression does not compile.
    #[error("the pattern '{pattern}' cannot be used: {reason}")]
    Pattern {
        /// The pattern as the caller wrote it.
        pattern: String,
        /// The compiler's message.
        reason: String,
    },
    /// The arguments satisfy their schema but contradict each other or the file they refer to.
    #[error("{0}")]
    Arguments(String),
    /// The call exceeded its time limit.
    #[error("the tool '{tool}' took longer than {} s and was stopped", limit.as_secs_f64())]
    Timeout {
        /// The tool's name.
        tool: String,
        /// The time limit that was exceeded.
        limit: Duration,
    },
    /// An MCP server cannot be started, reached or understood.
    #[error("the MCP server '{server}' {reason}")]
    Server {
        /// The server's name in the blueprint.
        server: String,
        /// The cause, with the server's secrets redacted.
        reason: String,
    },
    /// The tool ran and reported a failure.
    #[error("{0}")]
    Failed(String),
}

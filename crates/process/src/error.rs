//! The crate's error type.

use std::time::Duration;

/// The reason why a program produced no [`Output`](crate::Output).
///
/// A program that exits by itself always produces one, even with a failing status.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `Program::argv` is empty.
    #[error("the command is empty; name a program to start")]
    Empty,
    /// The operating system did not start the program.
    #[error("'{program}' cannot be started: {reason}")]
    Start {
        /// The first element of `Program::argv`, unresolved.
        program: String,
        /// The cause and, where one is known, the remedy.
        reason: String,
    },
    /// The program exceeded `Limits::timeout` and was killed.
    #[error("took longer than {} s", limit.as_secs_f64())]
    Timeout {
        /// The value of `Limits::timeout`.
        limit: Duration,
        /// The last bytes of stderr, at most `Limits::stderr_bytes_max`.
        stderr: Vec<u8>,
    },
    /// The program exceeded `Limits::stdout_bytes_max` and was killed.
    #[error("wrote more than {limit} bytes")]
    TooLarge {
        /// The value of `Limits::stdout_bytes_max`, in bytes.
        limit: usize,
        /// The last bytes of stderr, at most `Limits::stderr_bytes_max`.
        stderr: Vec<u8>,
    },
    /// The operating system did not report the exit status, or did not provide the pipes.
    #[error("its exit status cannot be read")]
    Wait(#[source] std::io::Error),
}

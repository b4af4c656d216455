//! What can go wrong with a program, short of its own failing.

use std::time::Duration;

/// Why a program gave no result. A program that ended by itself did, whatever its status.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to start.
    #[error("there is no program to start: the command is empty")]
    Empty,
    /// It did not start.
    #[error("'{program}' cannot be started: {reason}")]
    Start {
        /// The program as it was given.
        program: String,
        /// Why not, and what would do.
        reason: String,
    },
    /// It took too long and was killed.
    #[error("took longer than {} s", limit.as_secs_f64())]
    Timeout {
        /// How long it might take.
        limit: Duration,
        /// The end of what it had said on stderr.
        stderr: Vec<u8>,
    },
    /// It wrote more than it may and was killed.
    #[error("wrote more than {limit} bytes")]
    TooLarge {
        /// How much it might write.
        limit: usize,
        /// The end of what it had said on stderr.
        stderr: Vec<u8>,
    },
    /// The system does not say how it ended.
    #[error("cannot be waited for")]
    Wait(#[source] std::io::Error),
}

//! The exit statuses that programs around the command rely on.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// A valid result.
    Valid,
    /// The text does not satisfy the schema.
    Invalid,
    /// Bad usage, config, agent or schema.
    Usage,
    /// No JSON found.
    NotFound,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Valid => 0,
            Exit::Invalid => 1,
            Exit::Usage => 2,
            Exit::NotFound => 4,
        })
    }
}

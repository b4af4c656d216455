//! The exit statuses that programs around the command rely on.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// A valid result.
    Valid,
    /// The run failed, or the text does not satisfy the schema.
    Invalid,
    /// Bad usage, config, agent or schema.
    Usage,
    /// The backend cannot be reached or refused the request.
    Backend,
    /// No JSON found.
    NotFound,
    /// Someone pressed Ctrl-C.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Valid => 0,
            Exit::Invalid => 1,
            Exit::Usage => 2,
            Exit::Backend => 3,
            Exit::NotFound => 4,
            Exit::Interrupted => 130,
        })
    }
}

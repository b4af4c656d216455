//! The exit statuses of the command. They are part of its interface: scripts depend on them.

use std::process::ExitCode;

/// The outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded, or the result is valid.
    Valid,
    /// The run failed, or the text does not satisfy the schema.
    Invalid,
    /// Bad usage, config, agent or schema.
    Usage,
    /// The backend cannot be reached or refused the request.
    Backend,
    /// The text contains no JSON.
    NotFound,
    /// Ctrl-C or another termination signal ended the command.
    Interrupted,
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Exit::Valid => 0,
            Exit::Invalid => 1,
            Exit::Usage => 2,
            Exit::Backend => 3,
            Exit::NotFound => 4,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/reference/exit-codes.md lists every code with its name.
    #[test]
    fn exit_codes_are_documented() {
        let page = include_str!("../../../docs/reference/exit-codes.md");
        let documented: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let all = [Exit::Valid, Exit::Invalid, Exit::Usage, Exit::Backend, Exit::NotFound, Exit::Interrupted];
        let codes: Vec<String> = all.map(|exit| exit.code().to_string()).to_vec();
        assert_eq!(documented, codes);
    }
}

//! Runs the commands that decide criteria, if the project allows them.

use std::path::Path;
use std::time::Duration;

use slipform_process::{Error, Limits, Program, anchor_command, output_tail};

use super::Finding;
use super::command_pattern::CommandPattern;
use crate::ProjectPolicy;
use crate::mcp::ToolContext;

/// Time limit of one command, long enough for a project's tests. A longer command is killed and decides
/// nothing.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(300);

/// Maximum size of standard output. A command that writes more is killed and decides nothing.
const STDOUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Number of bytes kept from the end of standard error.
const STDERR_BYTES_MAX: usize = 16 * 1024;

/// The commands that a project allows; none by default.
#[derive(Clone, Default)]
pub(crate) struct Commands {
    allowed: Vec<CommandPattern>,
    /// All environment variables that commands see.
    environment: Vec<(String, String)>,
    /// Rules for files, and the project's root, if commands run in another folder.
    policy: ProjectPolicy,
}

/// Omits the variables, because they may hold keys.
impl std::fmt::Debug for Commands {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Commands").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

impl Commands {
    pub(crate) fn of(context: &ToolContext) -> Commands {
        Commands {
            allowed: context.commands.clone(),
            environment: context.environment.clone(),
            policy: context.policy.clone(),
        }
    }

    /// Returns whether the project allows a command.
    pub(super) fn is_allowed(&self, argv: &[String]) -> bool {
        self.allowed.iter().any(|pattern| pattern.matches(argv))
    }

    /// Returns what to write into the settings to allow a command.
    fn advice(&self, argv: &[String]) -> String {
        let shown = argv.join(" ");
        match self.allowed.iter().find(|pattern| pattern.is_start_of(argv)) {
            None => format!("; allow it in slipform.toml: [tools] commands = [\"{shown}\"]"),
            Some(pattern) => {
                let fixed: Vec<&str> = pattern
                    .words()
                    .iter()
                    .map(String::as_str)
                    .take_while(|word| !word.contains('*'))
                    .collect();
                let fixed = fixed.join(" ");
                format!(
                    ": slipform.toml allows '{pattern}' without these arguments; a person can write the whole command \
                     into [tools] commands, \"{fixed} *\" for any arguments that are not options, or \"{fixed} **\" for \
                     options too"
                )
            }
        }
    }

    /// Runs a command in a folder. A criterion passes if the command succeeds; it is undecided if the command
    /// is not allowed or does not run to its end.
    pub(super) async fn run(&self, argv: &[String], folder: &Path) -> Finding {
        let shown = argv.join(" ");
        if !self.is_allowed(argv) {
            return (None, format!("not decided: '{shown}' is not allowed{}", self.advice(argv)));
        }
        let program = Program {
            argv: anchor_command(argv, self.policy.root.as_deref(), folder),
            folder: folder.to_owned(),
            environment: self.environment.clone(),
            access: self.policy.program_access(folder, argv),
        };
        let limits = Limits {
            timeout: Some(COMMAND_TIME_MAX),
            stdout_bytes_max: STDOUT_BYTES_MAX,
            stderr_bytes_max: STDERR_BYTES_MAX,
        };
        match program.run(b"", &limits).await {
            Ok(ended) => {
                let complaints = output_tail(&ended.stderr);
                let words = if complaints.is_empty() { output_tail(&ended.stdout) } else { complaints };
                (Some(ended.status.success()), format!("'{shown}' ended with {}: {words}", ended.status))
            }
            Err(error @ Error::Start { .. }) => (None, format!("not decided: {error}")),
            Err(error) => (None, format!("not decided: '{shown}' {error}")),
        }
    }
}

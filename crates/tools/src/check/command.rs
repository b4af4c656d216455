//! Commands that decide criteria, as far as the project allows them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use slipform_process::{Error, Limits, Program, anchor_command, last_words};

use super::Seen;
use crate::mcp::Surroundings;

/// How long one command may take: tests of a project take minutes. One that takes longer is killed, and decides nothing.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(300);

/// How much a command may write. One that writes more is killed, and decides nothing.
const STDOUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How much of the end of its complaints is kept.
const STDERR_BYTES_MAX: usize = 16 * 1024;

/// The commands that a project allows. By default there are none.
#[derive(Clone, Default)]
pub(crate) struct Commands {
    /// The first words of each.
    allowed: Vec<Vec<String>>,
    /// All the variables that they see.
    environment: Vec<(String, String)>,
    /// The project's root, where commands are run in another folder.
    root: Option<PathBuf>,
}

/// Variables hold keys, and are not shown.
impl std::fmt::Debug for Commands {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Commands").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

impl Commands {
    pub(crate) fn of(surroundings: &Surroundings) -> Commands {
        let words = |command: &String| command.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut allowed: Vec<Vec<String>> = surroundings.commands.iter().map(words).collect();
        // No words at all would allow everything.
        allowed.retain(|words| !words.is_empty());
        let root = surroundings.policy.root.clone();
        Commands { allowed, environment: surroundings.environment.clone(), root }
    }

    fn is_allowed(&self, argv: &[String]) -> bool {
        self.allowed.iter().any(|words| argv.starts_with(words))
    }

    /// Runs a command in a folder: passed is whether it succeeds, and is not known where it may not be run.
    pub(super) async fn run(&self, argv: &[String], folder: &Path) -> Seen {
        let shown = argv.join(" ");
        if !self.is_allowed(argv) {
            let note = format!(
                "not decided: '{shown}' is not allowed; allow it in slipform.toml: [tools] commands = [\"{shown}\"]"
            );
            return (None, note);
        }
        let program = Program {
            argv: anchor_command(argv, self.root.as_deref(), folder),
            folder: folder.to_owned(),
            environment: self.environment.clone(),
        };
        let limits = Limits {
            timeout: Some(COMMAND_TIME_MAX),
            stdout_bytes_max: STDOUT_BYTES_MAX,
            stderr_bytes_max: STDERR_BYTES_MAX,
        };
        match program.run(b"", &limits).await {
            Ok(ended) => {
                let complaints = last_words(&ended.stderr);
                let words = if complaints.is_empty() { last_words(&ended.stdout) } else { complaints };
                (Some(ended.status.success()), format!("'{shown}' ended with {}: {words}", ended.status))
            }
            Err(error @ Error::Start { .. }) => (None, format!("not decided: {error}")),
            Err(error) => (None, format!("not decided: '{shown}' {error}")),
        }
    }
}

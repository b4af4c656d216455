//! Parses a criterion into the task that decides it.

use serde::Deserialize;

use super::symbols::SymbolCheck;
use super::words;

/// The note for a criterion that this tool cannot decide.
pub(super) const UNDECIDED: &str = "not decided: look at the files";

#[derive(Deserialize)]
pub(super) struct Arguments {
    pub(super) checks: Vec<Criterion>,
}

/// A criterion as the model writes it: a sentence, or a structured check.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Criterion {
    Text(String),
    Check(Check),
}

#[derive(Deserialize)]
pub(super) struct Check {
    criterion: String,
    path: Option<String>,
    contains: Option<String>,
    matches: Option<String>,
    #[serde(default)]
    absent: bool,
    command: Option<Vec<String>>,
}

/// The action that decides a criterion.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Task {
    /// Inspect these files of the project. All checks must hold.
    Inspect(Vec<FileCheck>),
    /// Search the project's code. All checks must hold.
    Search(Vec<SymbolCheck>),
    /// Run a command with these arguments.
    Run(Vec<String>),
    /// Run a command that a sentence names, if it is allowed. Without quotes the words may be no command.
    RunWords { argv: Vec<String>, is_quoted: bool },
    /// Leave the criterion undecided, for this reason.
    Undecided(String),
}

/// The conditions that a file or folder has to meet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct FileCheck {
    pub(super) path: String,
    pub(super) kind: PathKind,
    pub(super) contains: Option<String>,
    pub(super) matches: Option<String>,
    /// Inverts the condition.
    pub(super) absent: bool,
    /// True if `contains` may describe the content instead of quoting it. Then only a match decides the
    /// criterion.
    pub(super) is_loose: bool,
}

/// The type that a path has to have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum PathKind {
    #[default]
    Any,
    File,
    Folder,
}

/// Returns the criterion's text and the task that decides it.
pub(super) fn parse(criterion: Criterion) -> (String, Task) {
    let check = match criterion {
        Criterion::Text(words) => {
            let task = parse_text(&words);
            return (words, task);
        }
        Criterion::Check(check) => check,
    };
    let Check { criterion, path, contains, matches, absent, command } = check;
    let is_about_files = path.is_some() || contains.is_some() || matches.is_some() || absent;
    let task = match (path, command) {
        (_, Some(_)) if is_about_files => Task::Undecided(
            "not decided: a command is checked alone, without path, contains, matches or absent".to_owned(),
        ),
        (_, Some(argv)) => Task::Run(argv),
        (Some(path), None) => {
            Task::Inspect(vec![FileCheck { path, contains, matches, absent, ..FileCheck::default() }])
        }
        (None, None) if is_about_files => {
            Task::Undecided("not decided: contains, matches and absent need the path of a file".to_owned())
        }
        (None, None) => parse_text(&criterion),
    };
    (criterion, task)
}

fn parse_text(text: &str) -> Task {
    words::parse(text).unwrap_or_else(|| Task::Undecided(UNDECIDED.to_owned()))
}

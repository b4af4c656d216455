//! Parses a criterion into the task that decides it.

use serde::Deserialize;

/// The note for a criterion that this tool cannot decide.
const UNDECIDED: &str = "not decided: look at the files";

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
#[derive(Debug, PartialEq)]
pub(super) enum Task {
    /// Inspect the project's files.
    Inspect(FileCheck),
    /// Run a command with these arguments.
    Run(Vec<String>),
    /// Leave the criterion undecided, for this reason.
    Undecided(String),
}

impl Task {
    pub(super) fn file_check(&self) -> Option<&FileCheck> {
        match self {
            Task::Inspect(check) => Some(check),
            _ => None,
        }
    }
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
            Task::Inspect(FileCheck { path, contains, matches, absent, ..FileCheck::default() })
        }
        (None, None) if is_about_files => {
            Task::Undecided("not decided: contains, matches and absent need the path of a file".to_owned())
        }
        (None, None) => parse_text(&criterion),
    };
    (criterion, task)
}

fn parse_text(words: &str) -> Task {
    let words = words.trim();
    parse_existence(words)
        .or_else(|| parse_content(words))
        .map_or_else(|| Task::Undecided(UNDECIDED.to_owned()), Task::Inspect)
}

/// Parses `File X exists`, `Folder X exists` and `X exists`, with or without an article.
fn parse_existence(words: &str) -> Option<FileCheck> {
    let words = words.trim_end_matches('.').strip_suffix("exists")?.strip_suffix(char::is_whitespace)?;
    let (first, rest) = words.split_once(char::is_whitespace).unwrap_or(("", words));
    let (first, rest) = match first.to_lowercase().as_str() {
        "the" | "a" => rest.split_once(char::is_whitespace).unwrap_or(("", rest)),
        _ => (first, rest),
    };
    let kind = match first.to_lowercase().as_str() {
        "file" => PathKind::File,
        "folder" | "directory" => PathKind::Folder,
        "" => PathKind::Any,
        _ => return None,
    };
    let (path, is_quoted) = word_or_quoted(rest)?;
    // "The function exists" is not about a file named "function".
    let looks_like_path = is_quoted || path.contains(['/', '.']);
    (kind != PathKind::Any || looks_like_path).then(|| FileCheck { path, kind, ..FileCheck::default() })
}

/// Parses `X contains Y` and `X does not contain Y`, with or without `File` before them.
fn parse_content(words: &str) -> Option<FileCheck> {
    let (first, rest) = words.split_once(char::is_whitespace)?;
    let is_file = first.eq_ignore_ascii_case("file");
    let words = if is_file { rest } else { words };
    let denied = words.split_once(" does not contain ").map(|(path, text)| (path, text, true));
    let (path, text, absent) =
        denied.or_else(|| words.split_once(" contains ").map(|(path, text)| (path, text, false)))?;
    let (path, is_quoted) = word_or_quoted(path)?;
    // "The output contains errors" is not about a file named "output".
    if !(is_file || is_quoted || path.contains(['/', '.'])) {
        return None;
    }
    // A plain lower-case word may describe the content instead of quoting it.
    let (text, is_loose) = match word_or_quoted(text) {
        Some((text, is_quoted)) => {
            let is_plain = text.chars().all(|letter| letter.is_lowercase() || letter == '.');
            (text, !is_quoted && is_plain)
        }
        None => (text.trim().to_owned(), true),
    };
    let has_text = !text.is_empty();
    has_text.then(|| FileCheck { path, contains: Some(text), absent, is_loose, ..FileCheck::default() })
}

/// Returns the text if it is one word or quoted, and whether it was quoted.
fn word_or_quoted(text: &str) -> Option<(String, bool)> {
    let text = text.trim();
    for quote in ['"', '\'', '`'] {
        let inner = text.strip_prefix(quote).and_then(|rest| rest.trim_end_matches('.').strip_suffix(quote));
        // `'a' and 'b'` starts and ends with a quote but is not one quoted text.
        if let Some(inner) = inner.filter(|inner| !inner.is_empty() && !inner.contains(quote)) {
            return Some((inner.to_owned(), true));
        }
    }
    let is_word = !text.is_empty() && !text.contains(char::is_whitespace);
    is_word.then(|| (text.to_owned(), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_check(path: &str) -> FileCheck {
        FileCheck { path: path.to_owned(), ..FileCheck::default() }
    }

    fn containing(path: &str, text: &str) -> FileCheck {
        FileCheck { contains: Some(text.to_owned()), ..file_check(path) }
    }

    #[test]
    fn criteria_of_a_known_form_are_parsed() {
        for (words, expected) in [
            ("File src/a.rs exists", FileCheck { kind: PathKind::File, ..file_check("src/a.rs") }),
            (
                "  FILE `my notes.md` exists. ",
                FileCheck { kind: PathKind::File, ..file_check("my notes.md") },
            ),
            ("folder src/ exists", FileCheck { kind: PathKind::Folder, ..file_check("src/") }),
            ("src/a.rs contains main()", containing("src/a.rs", "main()")),
            ("src/a.rs contains loops", FileCheck { is_loose: true, ..containing("src/a.rs", "loops") }),
            ("File Makefile contains \"run: all\"", containing("Makefile", "run: all")),
            ("`Makefile` contains 'a b'.", containing("Makefile", "a b")),
            ("a.txt does not contain TODO", FileCheck { absent: true, ..containing("a.txt", "TODO") }),
            (
                "a.txt contains 'a' and 'b'",
                FileCheck { is_loose: true, ..containing("a.txt", "'a' and 'b'") },
            ),
            ("a.txt contains two words", FileCheck { is_loose: true, ..containing("a.txt", "two words") }),
        ] {
            assert_eq!(parse_text(words), Task::Inspect(expected), "{words}");
        }
    }

    #[test]
    fn other_criteria_are_undecided() {
        for words in [
            "",
            "exists",
            "File exists",
            "File with the settings exists",
            "Function main() is exported",
            "The output contains errors",
            "Output contains errors",
            "src/a.rs contains ",
        ] {
            assert_eq!(parse_text(words), Task::Undecided(UNDECIDED.to_owned()), "{words}");
        }
    }
}

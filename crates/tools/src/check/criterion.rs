//! A criterion, and what has to be done to decide it.

use serde::Deserialize;

/// What is said of a criterion that nobody here can decide.
const LEFT: &str = "not decided: look at the files";

#[derive(Deserialize)]
pub(super) struct Arguments {
    pub(super) checks: Vec<Given>,
}

/// A criterion as it is given: in words, or with what is to be checked.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Given {
    Words(String),
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

/// What has to be done for a criterion.
#[derive(Debug, PartialEq)]
pub(super) enum Task {
    /// The project's files are looked at.
    Look(Look),
    /// A command is run.
    Run(Vec<String>),
    /// Nothing, for this reason.
    Leave(String),
}

impl Task {
    pub(super) fn look(&self) -> Option<&Look> {
        match self {
            Task::Look(look) => Some(look),
            _ => None,
        }
    }
}

/// What is looked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Look {
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) contains: Option<String>,
    pub(super) matches: Option<String>,
    /// Whether it must not be so.
    pub(super) absent: bool,
    /// Whether the text may be a description of what the file has: only finding it decides anything.
    pub(super) is_loose: bool,
}

/// What a path has to lead to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Any,
    File,
    Folder,
}

/// The criterion in words, and what has to be done for it.
pub(super) fn read(given: Given) -> (String, Task) {
    let check = match given {
        Given::Words(words) => {
            let task = in_words(&words);
            return (words, task);
        }
        Given::Check(check) => check,
    };
    let Check { criterion, path, contains, matches, absent, command } = check;
    let about_files = path.is_some() || contains.is_some() || matches.is_some() || absent;
    let task = match (path, command) {
        (_, Some(_)) if about_files => Task::Leave(
            "not decided: a command is checked alone, without path, contains, matches or absent".to_owned(),
        ),
        (_, Some(argv)) => Task::Run(argv),
        (Some(path), None) => Task::Look(Look { path, contains, matches, absent, ..Look::default() }),
        (None, None) if about_files => {
            Task::Leave("not decided: contains, matches and absent need the path of a file".to_owned())
        }
        (None, None) => in_words(&criterion),
    };
    (criterion, task)
}

fn in_words(words: &str) -> Task {
    let words = words.trim();
    existence(words).or_else(|| content(words)).map_or_else(|| Task::Leave(LEFT.to_owned()), Task::Look)
}

/// `File X exists`, `Folder X exists`, `X exists`, with or without an article.
fn existence(words: &str) -> Option<Look> {
    let words = words.trim_end_matches('.').strip_suffix("exists")?.strip_suffix(char::is_whitespace)?;
    let (first, rest) = words.split_once(char::is_whitespace).unwrap_or(("", words));
    let (first, rest) = match first.to_lowercase().as_str() {
        "the" | "a" => rest.split_once(char::is_whitespace).unwrap_or(("", rest)),
        _ => (first, rest),
    };
    let kind = match first.to_lowercase().as_str() {
        "file" => Kind::File,
        "folder" | "directory" => Kind::Folder,
        "" => Kind::Any,
        _ => return None,
    };
    let (path, is_quoted) = one_word(rest)?;
    // "The function exists" is not about a file of that name.
    let looks_like_path = is_quoted || path.contains(['/', '.']);
    (kind != Kind::Any || looks_like_path).then(|| Look { path, kind, ..Look::default() })
}

/// `X contains Y`, `X does not contain Y`, with or without `File` before them.
fn content(words: &str) -> Option<Look> {
    let (first, rest) = words.split_once(char::is_whitespace)?;
    let is_file = first.eq_ignore_ascii_case("file");
    let words = if is_file { rest } else { words };
    let denied = words.split_once(" does not contain ").map(|(path, text)| (path, text, true));
    let (path, text, absent) =
        denied.or_else(|| words.split_once(" contains ").map(|(path, text)| (path, text, false)))?;
    let (path, is_quoted) = one_word(path)?;
    // "The output contains errors" is not about a file of that name.
    if !(is_file || is_quoted || path.contains(['/', '.'])) {
        return None;
    }
    // A plain word may describe what is there, and need not stand there.
    let (text, is_loose) = match one_word(text) {
        Some((text, is_quoted)) => {
            let is_plain = text.chars().all(|letter| letter.is_lowercase() || letter == '.');
            (text, !is_quoted && is_plain)
        }
        None => (text.trim().to_owned(), true),
    };
    let has_text = !text.is_empty();
    has_text.then(|| Look { path, contains: Some(text), absent, is_loose, ..Look::default() })
}

/// One word, or whatever stands in quotes; and whether it did.
fn one_word(text: &str) -> Option<(String, bool)> {
    let text = text.trim();
    for quote in ['"', '\'', '`'] {
        let inner = text.strip_prefix(quote).and_then(|rest| rest.trim_end_matches('.').strip_suffix(quote));
        // 'a' and 'b' are two.
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

    fn look(path: &str) -> Look {
        Look { path: path.to_owned(), ..Look::default() }
    }

    fn holding(path: &str, text: &str) -> Look {
        Look { contains: Some(text.to_owned()), ..look(path) }
    }

    #[test]
    fn criteria_of_a_decidable_form_are_understood() {
        for (words, expected) in [
            ("File src/a.rs exists", Look { kind: Kind::File, ..look("src/a.rs") }),
            ("  FILE `my notes.md` exists. ", Look { kind: Kind::File, ..look("my notes.md") }),
            ("folder src/ exists", Look { kind: Kind::Folder, ..look("src/") }),
            ("src/a.rs contains main()", holding("src/a.rs", "main()")),
            ("src/a.rs contains loops", Look { is_loose: true, ..holding("src/a.rs", "loops") }),
            ("File Makefile contains \"run: all\"", holding("Makefile", "run: all")),
            ("`Makefile` contains 'a b'.", holding("Makefile", "a b")),
            ("a.txt does not contain TODO", Look { absent: true, ..holding("a.txt", "TODO") }),
            ("a.txt contains 'a' and 'b'", Look { is_loose: true, ..holding("a.txt", "'a' and 'b'") }),
            ("a.txt contains two words", Look { is_loose: true, ..holding("a.txt", "two words") }),
        ] {
            assert_eq!(in_words(words), Task::Look(expected), "{words}");
        }
    }

    #[test]
    fn everything_else_is_left_open() {
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
            assert_eq!(in_words(words), Task::Leave(LEFT.to_owned()), "{words}");
        }
    }
}

//! Words and phrases that comments, documentation and messages must not use.

use std::path::Path;

/// Phrases that hide who acts, or that only insiders understand. See `CONTRIBUTING.md`.
const UNWANTED: [&str; 12] = [
    "whoever",
    "whomever",
    "nobody",
    "somebody",
    "any more",
    "no one else",
    "going home",
    "goes home",
    "is none",
    "says the same",
    "worth nothing",
    concat!("form", "work"),
];

/// Texts that models read, or that a standard fixes. They change only when the benchmark for conformance shows no loss.
const EXEMPT: [&str; 4] = ["xtask/src/tidy.rs", "xtask/src/tidy/words.rs", "LICENSE-APACHE", "CHANGELOG.md"];

/// Files whose string literals models read.
const READ_BY_MODELS: [&str; 3] = ["crates/engine/src", "crates/tools/src", "agents"];

/// Returns the unwanted phrases of a text.
pub(super) fn unwanted<'a>(path: &'a Path, text: &'a str) -> impl Iterator<Item = &'static str> + use<'a> {
    let is_exempt = EXEMPT.iter().any(|exempt| path == Path::new(exempt));
    let lower = text.to_lowercase();
    UNWANTED.into_iter().filter(move |phrase| !is_exempt && contains_words(&lower, phrase))
}

/// Whether models read the string literals of a file.
pub(super) fn is_read_by_models(path: &Path) -> bool {
    READ_BY_MODELS.iter().any(|folder| path.starts_with(folder))
}

fn contains_words(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + phrase.len()..].chars().next();
        let is_apart = |neighbour: Option<char>| !neighbour.is_some_and(char::is_alphanumeric);
        is_apart(before) && is_apart(after)
    })
}

/// Returns the lines of a Markdown text outside fences, with their numbers.
pub(super) fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<usize> = None;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let ticks = line.trim_start().bytes().take_while(|&byte| byte == b'`').count();
        match fence {
            None if ticks >= 3 => fence = Some(ticks),
            None => return Some((number, line)),
            Some(open) if ticks >= open && line.trim().len() == ticks => fence = None,
            Some(_) => {}
        }
        None
    })
}

/// Returns the comment lines of a script, a query or a settings file, with their numbers.
pub(super) fn comment_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().zip(1..).filter_map(|(line, number)| {
        let comment = line.trim_start();
        (comment.starts_with('#') || comment.starts_with("--")).then_some((number, line))
    })
}

//! Splits a file's text into chunks of the size of a function and counts the terms of each.

use super::terms::{Term, each_term};

/// Lines per chunk. A chunk ends before a definition or paragraph between the minimum and the maximum,
/// otherwise after [`LINES`]. Longer chunks dilute their subject; shorter ones split it.
const LINES_MIN: usize = 20;
const LINES_MAX: usize = 50;
const LINES: usize = 40;

/// Number of lines that a chunk without a natural end shares with the next one. One of them then contains
/// the text at the boundary whole.
const LINES_SHARED: usize = 6;

/// Length of a line's prefix that is indexed, in bytes. Longer lines are usually generated.
const LINE_BYTES_MAX: usize = 2_000;

/// Maximum count of a term in a chunk. Higher counts do not improve the ranking.
const COUNT_MAX: u8 = 127;

/// Flag beside the count: the term occurs on a line that defines something.
const DEFINED: u8 = 128;

/// A range of lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Counted from 1, inclusive like `last_line`.
    pub(super) first_line: u32,
    pub(super) last_line: u32,
    /// Number of terms, with repetitions.
    pub(super) length: u32,
    /// Terms in ascending order, each with its count and the flag [`DEFINED`].
    pub(super) terms: Vec<(Term, u8)>,
}

impl Chunk {
    /// Returns the count of a term in this chunk, and whether it occurs in a definition.
    pub(super) fn occurrence(&self, term: Term) -> Option<(u8, bool)> {
        let index = self.terms.binary_search_by_key(&term, |(known, _)| *known).ok()?;
        let (_, mark) = self.terms[index];
        Some((mark & COUNT_MAX, mark & DEFINED != 0))
    }
}

/// Splits a text into chunks.
pub(super) fn chunks(text: &str) -> Vec<Chunk> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut start = 0;
    while start < lines.len() {
        let (end, next) = end_of(&lines, start);
        let chunk = chunk(&lines[start..end], start);
        if chunk.length > 0 {
            found.push(chunk);
        }
        start = next;
    }
    found
}

/// Returns the end of the chunk that begins at `start`, and the start of the next one.
fn end_of(lines: &[&str], start: usize) -> (usize, usize) {
    if lines.len() - start <= LINES_MAX {
        return (lines.len(), lines.len());
    }
    let begins = |index: &usize| {
        lines[index - 1].trim().is_empty()
            && lines[*index].starts_with(|character: char| !character.is_whitespace() && character != '}')
    };
    match (start + LINES_MIN..=start + LINES_MAX).rev().find(begins) {
        Some(end) => (end, end),
        None => (start + LINES, start + LINES - LINES_SHARED),
    }
}

fn chunk(lines: &[&str], start: usize) -> Chunk {
    let mut words: Vec<(Term, u8)> = Vec::new();
    for line in lines {
        let line = &line[..line.floor_char_boundary(LINE_BYTES_MAX)];
        let defined = if defines(line) { DEFINED } else { 0 };
        each_term(line, |term| words.push((term, defined | 1)));
    }
    let length = words.len();
    words.sort_unstable_by_key(|(term, _)| *term);
    let mut terms: Vec<(Term, u8)> = Vec::new();
    for (term, mark) in words {
        match terms.last_mut() {
            Some((last, total)) if *last == term => {
                let count = (*total & COUNT_MAX).saturating_add(1).min(COUNT_MAX);
                *total = count | ((*total | mark) & DEFINED);
            }
            _ => terms.push((term, mark)),
        }
    }
    terms.shrink_to_fit();
    let line = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    Chunk { first_line: line(start + 1), last_line: line(start + lines.len()), length: line(length), terms }
}

/// Returns whether a line is a heading or, in most languages, begins a definition.
fn defines(line: &str) -> bool {
    const BEFORE: [&str; 14] = [
        "pub",
        "async",
        "export",
        "default",
        "public",
        "private",
        "protected",
        "static",
        "abstract",
        "final",
        "unsafe",
        "const",
        "override",
        "declare",
    ];
    const DEFINING: [&str; 17] = [
        "fn",
        "struct",
        "enum",
        "trait",
        "type",
        "mod",
        "impl",
        "class",
        "def",
        "function",
        "interface",
        "func",
        "module",
        "record",
        "object",
        "namespace",
        "macro_rules!",
    ];
    let line = line.trim_start();
    if line.starts_with('#') && line.trim_start_matches('#').starts_with(' ') {
        return true;
    }
    let mut words =
        line.split(|character: char| character.is_whitespace() || character == '(').take(6).peekable();
    let mut is_constant = false;
    while let Some(word) = words.next() {
        if DEFINING.contains(&word) {
            return words.peek().is_some();
        }
        if !BEFORE.contains(&word) && !word.ends_with(')') {
            // Program-wide constants are upper case. Other constants are local and no better than ordinary
            // lines.
            return is_constant && word.starts_with(char::is_uppercase);
        }
        is_constant |= word == "const" || word == "static";
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_every_line_and_prefer_to_begin_with_a_definition() {
        let function =
            |number: usize| format!("fn number_{number}() {{\n{}}}\n\n", "    work();\n".repeat(27));
        let text: String = (0..5).map(function).collect();
        let found: Vec<_> = chunks(&text).iter().map(|chunk| (chunk.first_line, chunk.last_line)).collect();
        assert_eq!(found, [(1, 30), (31, 60), (61, 90), (91, 120), (121, 150)]);
        let flat = "word\n".repeat(100);
        let found: Vec<_> = chunks(&flat).iter().map(|chunk| (chunk.first_line, chunk.last_line)).collect();
        assert_eq!(found, [(1, 40), (35, 74), (69, 100)]);
        assert!(chunks("\n\n").is_empty());
    }

    #[test]
    fn definitions_are_recognised() {
        for line in [
            "pub(crate) async fn count(",
            "export default class Ledger {",
            "def count(self):",
            "## Retries",
            "const RETRIES_MAX: usize = 3;",
            "    func (l *Ledger) Count() int {",
            "public static final class A {",
        ] {
            assert!(defines(line), "{line}");
        }
        for line in [
            "let fn_ = 1;",
            "return function_call();",
            "// type of thing",
            "published in",
            "#include <a>",
            "type",
        ] {
            assert!(!defines(line), "{line}");
        }
    }
}

//! Finds JSON objects and arrays in a text in one pass.

mod code;

use memchr::memchr3;

use crate::memory::{self, DOCUMENT_BYTES};
use crate::options::Mode;
use crate::parse::{self, Document, Evidence, Failure, Repairs};
use crate::strict;
use code::is_row;

/// The most bytes parsed again after a bracket did not start a document, as a multiple of the text's length.
/// Beyond it scanning stops, which keeps hostile texts linear.
const REREAD_FACTOR_MAX: usize = 8;

/// The longest line after an opening code fence that counts as its tag, in bytes.
const TAG_LINE_MAX: usize = 200;

/// Names of tags around a tool's result.
const TOOL_RESULT_TAGS: [&str; 4] = ["tool_response", "tool_result", "function_response", "observation"];

/// The confidence that a document is the answer, judged by its surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Confidence {
    /// Found only inside the model's reasoning.
    Reasoning,
    /// An array of scalars in prose, or data inside program code.
    Weak,
    /// Found in prose.
    Prose,
    /// Found in a code fence or after a tag for documents.
    Marked,
}

/// A document and its location.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) document: Document,
    pub(crate) confidence: Confidence,
    /// The offset at which the document starts; it ends at `document.end`.
    pub(crate) start: usize,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) found: Vec<Found>,
    /// Whether a document was skipped because it is nested too deep.
    pub(crate) is_too_deep: bool,
}

/// Finds all documents in `text`. With a schema, text that could be a placeholder in prose also counts as a
/// document.
pub(crate) fn scan(text: &str, has_schema: bool, mode: Mode) -> Scan {
    let is_tail = |byte: &u8| byte.is_ascii_whitespace() || b"}]);`".contains(byte);
    let mut scanner = Scanner {
        tail: text.len() - text.bytes().rev().take_while(is_tail).count(),
        text,
        bytes: text.as_bytes(),
        has_schema,
        mode,
        at: 0,
        clear_from: 0,
        marked: false,
        is_in_fence: false,
        argument_end: 0,
        reread_bytes_left: text.len().saturating_mul(REREAD_FACTOR_MAX) + 4096,
        scan: Scan::default(),
    };
    scanner.run();
    scanner.scan
}

struct Scanner<'t> {
    /// The offset at which the trailing brackets and white space start.
    tail: usize,
    text: &'t str,
    bytes: &'t [u8],
    has_schema: bool,
    mode: Mode,
    at: usize,
    /// Only white space and commas lie between this offset and a document at the start of the text or a
    /// fence, or directly after another document.
    clear_from: usize,
    /// Whether `clear_from` is in a code fence or after a tag.
    marked: bool,
    is_in_fence: bool,
    /// The end of the last bracketed argument of a call; zero before the first.
    argument_end: usize,
    reread_bytes_left: usize,
    scan: Scan,
}

impl Scanner<'_> {
    fn run(&mut self) {
        while let Some(offset) = memchr3(b'{', b'[', b'`', &self.bytes[self.at..]) {
            let at = self.at + offset;
            if self.bytes[at] == b'`' {
                self.backticks(at);
                continue;
            }
            if self.bytes[at] == b'['
                && let Some(end) = self.tag_in_brackets(at)
            {
                self.at = end;
                self.clear_from = end;
                self.marked = true;
                continue;
            }
            self.bracket(at);
        }
    }

    fn backticks(&mut self, at: usize) {
        let run = self.bytes[at..].iter().take_while(|&&byte| byte == b'`').count();
        self.at = at + run;
        if run < 3 {
            return;
        }
        self.is_in_fence = !self.is_in_fence;
        self.marked = self.is_in_fence;
        if self.is_in_fence {
            // Skip the language tag.
            let tag = self.bytes[self.at..]
                .iter()
                .take_while(|&&byte| is_word(byte) || matches!(byte, b'+' | b'#' | b'-' | b'.'))
                .count();
            self.at += tag;
            let line = &self.bytes[self.at..];
            let rest = line.iter().take(TAG_LINE_MAX).take_while(|&&byte| byte != b'\n').count();
            // `json title="x"`: the rest of the line is part of the tag.
            let starts = |byte: &u8| matches!(byte, b'{' | b'[' | b'(' | b'"' | b'`');
            if tag > 0 && !line[..rest].iter().any(starts) {
                self.at += rest;
                // A longer line may be cut inside a character.
                while !self.text.is_char_boundary(self.at) {
                    self.at += 1;
                }
            }
        }
        self.clear_from = self.at;
        if self.is_in_fence {
            let content =
                self.at + self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if self.bytes.get(content) == Some(&b'(') {
                self.bracket(content);
            }
        }
    }

    /// Returns the end of a tag in brackets, which is not an array: `[TOOL_CALLS]`, `[/INST]`, `[BEGIN FINAL
    /// RESPONSE]`.
    fn tag_in_brackets(&self, at: usize) -> Option<usize> {
        let window = &self.bytes[at + 1..self.bytes.len().min(at + 48)];
        if window.starts_with(b"CDATA[") {
            return Some(at + 1 + b"CDATA[".len());
        }
        let length = window
            .iter()
            .take_while(|&&byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'/' | b' '))
            .count();
        let is_literal = matches!(&window[..length], b"NULL" | b"TRUE" | b"FALSE");
        (length > 2 && window.get(length) == Some(&b']') && !is_literal).then_some(at + 1 + length + 1)
    }

    fn bracket(&mut self, at: usize) {
        if self.cannot_start(at) {
            self.at = at + 1;
            return;
        }
        let clear = self.is_clear(at);
        let tagged = !clear && self.is_behind_tag(at);
        let relaxed = clear || tagged;
        if !relaxed && self.is_in_code(at) {
            let is_argument = self.is_argument(at, at);
            let end = self.group_end(at);
            if is_argument {
                self.skip_argument(end)
            } else {
                self.at = end
            }
            return;
        }
        let marked = (clear && self.marked) || tagged;
        let left = memory::left();
        match self.read(at) {
            Ok(document) if !relaxed && self.is_argument(at, document.end) => {
                memory::restore(left);
                self.skip_argument(document.end)
            }
            Ok(document) if self.is_json(&document, at, relaxed, marked) => {
                let marked = marked || self.closing_tag_follows(document.end);
                let confidence = self.confidence_of(&document, marked, relaxed);
                self.at = document.end.max(at + 1);
                self.clear_from = self.at;
                self.marked = marked;
                if memory::take(DOCUMENT_BYTES) {
                    self.scan.found.push(Found { document, confidence, start: at });
                } else {
                    self.at = self.bytes.len();
                }
            }
            Ok(document) => {
                memory::restore(left);
                self.charge(document.end - at);
                self.at = at + 1;
            }
            // The extraction fails as a whole.
            Err((Failure::Memory, _)) => self.at = self.bytes.len(),
            Err((failure, reached)) => {
                self.charge(reached - at);
                self.scan.is_too_deep |= failure == Failure::Depth;
                // Brackets inside an unreadable document, or inside code, do not start a whole document.
                let is_whole = failure != Failure::NotJson || self.looks_like_document(at);
                self.at = if is_whole { self.closing(at) } else { at + 1 };
            }
        }
        if self.reread_bytes_left == 0 {
            self.at = self.bytes.len();
        }
    }

    /// Returns whether the text after a bracket looks like a document rather than prose.
    fn looks_like_document(&self, at: usize) -> bool {
        let window = &self.bytes[at + 1..self.bytes.len().min(at + 200)];
        let inside = window.trim_ascii_start();
        let Some(mark @ (b'"' | b'\'')) = inside.first() else { return false };
        let Some(close) = inside[1..].iter().position(|byte| byte == mark) else { return false };
        let after = inside[close + 2..].trim_ascii_start().first();
        matches!((self.bytes[at], after), (b'{', Some(b':')) | (b'[', Some(b',')))
    }

    /// Returns the end of the bracket at `at` by counting brackets, else the end of the paragraph.
    fn closing(&mut self, at: usize) -> usize {
        let mut depth = 0_usize;
        for (offset, byte) in self.bytes[at..].iter().enumerate() {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if depth == 0 {
                return at + offset + 1;
            }
        }
        self.charge(self.bytes.len() - at);
        memchr::memmem::find(&self.bytes[at..], b"\n\n").map_or(self.bytes.len(), |offset| at + offset)
    }

    /// `{{` starts a template, not an object. Checking it here keeps runs of braces cheap.
    fn cannot_start(&self, at: usize) -> bool {
        self.bytes[at] == b'{'
            && self.bytes[at + 1..].iter().take(64).find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
    }

    fn charge(&mut self, bytes: usize) {
        self.reread_bytes_left = self.reread_bytes_left.saturating_sub(bytes);
    }

    fn read(&self, at: usize) -> Result<Document, (Failure, usize)> {
        let left = memory::left();
        match strict::parse(self.text, at) {
            Ok(parsed) if !self.continues(parsed.end) => Ok(Document {
                value: parsed.value,
                end: parsed.end,
                repairs: Repairs::default(),
                evidence: Evidence { quoted: 1, pairs: 1, ..Evidence::default() },
                depth: parsed.depth,
            }),
            Err(failure) if failure.reason == strict::FailureReason::Memory => {
                Err((Failure::Memory, failure.at))
            }
            Err(failure) if failure.reason == strict::FailureReason::Depth => {
                Err((Failure::Depth, failure.at))
            }
            _ => {
                memory::restore(left);
                parse::parse(self.text, at, self.mode)
            }
        }
    }

    /// Returns whether `}, "key": …` follows: the document was closed too early.
    fn continues(&self, end: usize) -> bool {
        let Some(rest) = self.bytes[end..].trim_ascii_start().strip_prefix(b",") else { return false };
        self.bytes[end - 1] == b'}' && matches!(rest.trim_ascii_start().first(), Some(b'"' | b'\''))
    }

    /// Returns whether only white space and separators lie between the last clear offset and `at`.
    fn is_clear(&self, at: usize) -> bool {
        let gap = &self.text[self.clear_from..at];
        gap.len() < 4096 && is_blank(gap)
    }

    /// Returns whether a tag ends just before `at`: `<tool_call>`, `<|python_tag|>`, `functools`.
    fn is_behind_tag(&self, at: usize) -> bool {
        let window_start = at.saturating_sub(120);
        let before = self.bytes[window_start..at].trim_ascii_end();
        if before.ends_with(b"functools") {
            return true;
        }
        if before.last() != Some(&b'>') {
            return false;
        }
        let inside = before[..before.len() - 1]
            .iter()
            .rev()
            .take_while(|&&byte| !matches!(byte, b'<' | b'>' | b'\n'))
            .count();
        let open = before.len() - 1 - inside;
        let tag = &before[open..before.len() - 1];
        // A tool result that the model invented is not its answer.
        let is_tool_result =
            TOOL_RESULT_TAGS.iter().any(|name| memchr::memmem::find(tag, name.as_bytes()).is_some());
        inside > 0 && open > 0 && before[open - 1] == b'<' && !is_tool_result
    }

    /// Returns whether a tag closes after the document: `{…}</tool_call>`.
    fn closing_tag_follows(&self, end: usize) -> bool {
        let window = self.bytes[end..self.bytes.len().min(end + 64)].trim_ascii_start();
        let Some(name) = window.strip_prefix(b"</") else { return false };
        let length = name.iter().take_while(|&&byte| is_word(byte)).count();
        let is_tool_result = TOOL_RESULT_TAGS.iter().any(|tag| name.starts_with(tag.as_bytes()));
        length > 0 && name.get(length) == Some(&b'>') && !is_tool_result
    }

    /// Returns the end of the bracketed group at `at`, so that the scan skips its content.
    fn group_end(&mut self, at: usize) -> usize {
        let left = memory::left();
        let read = self.read(at);
        memory::restore(left);
        match read {
            Ok(document) => document.end.max(at + 1),
            Err((_, reached)) => {
                self.charge(reached - at);
                at + 1
            }
        }
    }

    /// Returns whether the parsed text is JSON, and not prose or code that contains brackets.
    fn is_json(&self, document: &Document, at: usize, relaxed: bool, marked: bool) -> bool {
        let evidence = document.evidence;
        let is_plain = |item: &serde_json::Value| !item.is_string() && !item.is_object() && !item.is_array();
        if document.value.as_array().is_some_and(|items| items.iter().all(is_plain))
            && !marked
            && !self.has_schema
            && !self.is_on_own_line(at, document.end)
        {
            // `[1]` is more often a footnote than an answer.
            return false;
        }
        let has_containers = document.value.as_array().is_none_or(|items| {
            items.iter().any(|item| item.is_object() || item.is_array() && !is_row(item))
        });
        if !relaxed && self.is_assigned(at) && !has_containers {
            return false;
        }
        if !relaxed && self.bytes[at] == b'{' && document.value.is_array() {
            // `[a-z]{2,3}`, `the set {1, 2}`
            return false;
        }
        let is_empty = document.value.as_object().is_some_and(serde_json::Map::is_empty);
        if is_empty && !relaxed && !self.ends_line(at, document.end) {
            // Empty braces of a format string: `println!("{}")`
            return false;
        }
        if document.repairs.is_empty() {
            return true;
        }
        let reaches_end = self.text.get(document.end..self.tail).is_none_or(is_blank);
        let solid_parts =
            evidence.quoted + evidence.literals + (evidence.objects + evidence.lists).saturating_sub(1);
        if document.value.is_object() {
            if evidence.pairs == 0 {
                return relaxed && reaches_end;
            }
            // `{name: word}` is a placeholder, but `{url: https://…}` and `{name: two words}` are data.
            let is_whole = reaches_end && is_blank(&self.text[..at]) && !has_only_words(&document.value);
            return solid_parts > 0 || (relaxed && (evidence.pairs > 1 || self.has_schema || is_whole));
        }
        if evidence.unquoted == 0 {
            return solid_parts > 0 || (relaxed && reaches_end);
        }
        relaxed && (self.has_schema || reaches_end)
    }

    /// Returns whether the line ends after a pair of brackets that is not in quotes.
    fn ends_line(&self, start: usize, end: usize) -> bool {
        let quoted =
            start.checked_sub(1).is_some_and(|before| matches!(self.bytes[before], b'"' | b'\'' | b'`'));
        let after =
            self.bytes[end..].iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'.' | b',' | b';'));
        !quoted && matches!(after, None | Some(b'\n' | b'<' | b'{' | b'['))
    }

    /// Returns whether a range has its own line, except for text that ends with a colon.
    fn is_on_own_line(&self, start: usize, end: usize) -> bool {
        let before = self.bytes[..start].iter().rev().find(|byte| !matches!(byte, b' ' | b'\t'));
        let after =
            self.bytes[end..].iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'.' | b';' | b','));
        let opens = matches!(before, None | Some(b':' | b'\n' | b'>' | b']' | b'}'));
        opens && matches!(after, None | Some(b'\n' | b'<' | b'[' | b'{' | b']' | b'}' | b'/' | b'#' | b'`'))
    }

    fn confidence_of(&self, document: &Document, marked: bool, relaxed: bool) -> Confidence {
        if marked {
            return Confidence::Marked;
        }
        let is_plain_list = document
            .value
            .as_array()
            .is_some_and(|items| !items.iter().any(|item| item.is_object() || item.is_array()));
        if !relaxed && (is_plain_list || self.is_in_fence) { Confidence::Weak } else { Confidence::Prose }
    }
}

/// Returns whether every property of an object is a single word.
fn has_only_words(value: &serde_json::Value) -> bool {
    let is_single = |member: &serde_json::Value| {
        member.as_str().is_none_or(|text| text.bytes().all(|byte| is_word(byte) || byte >= 0x80))
    };
    value.as_object().is_some_and(|object| object.values().all(is_single))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns whether a text contains no data, only white space, separators and comments.
pub(crate) fn is_blank(text: &str) -> bool {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|character: char| {
            character.is_whitespace() || matches!(character, ',' | ';' | '\u{feff}')
        });
        if let Some(comment) = rest.strip_prefix("/*") {
            let Some((_, after)) = comment.split_once("*/") else { return true };
            rest = after;
        } else if rest.starts_with("//") || rest.starts_with('#') {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else {
            return rest.is_empty();
        }
    }
}

//! One pass over a text that finds the documents in it.

use memchr::memchr3;

use crate::options::Mode;
use crate::parse::{self, Document, Failure, Repairs, Signs};
use crate::strict;

/// How much of the text may be read again after a bracket turned out not to start a document, as a
/// multiple of its length. Beyond that no more attempts are made, which keeps hostile texts linear.
const REREADING_MAX: usize = 8;

/// How long the line behind an opening fence may be to count as its tag.
const TAG_LINE_MAX: usize = 200;

/// How far back an open parenthesis is looked for.
const CALL_WITHIN: usize = 1024;

/// Names of tags around a tool's answer.
const ECHOES: [&str; 4] = ["tool_response", "tool_result", "function_response", "observation"];

/// How strongly the surroundings say that a document is the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// Found only inside the model's thinking.
    Thought,
    /// A list of plain values in prose, or data inside program code.
    Weak,
    /// In the open.
    Prose,
    /// In a fence or behind a tag made for it.
    Marked,
}

/// A document and where it was found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) document: Document,
    pub(crate) tier: Tier,
    /// Where the document starts; it ends at `document.end`.
    pub(crate) start: usize,
}

/// What a scan brought to light.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) found: Vec<Found>,
    /// Whether a document was given up because it is nested too deeply.
    pub(crate) too_deep: bool,
}

/// Finds all documents in `text`. With a contract in force (`guided`), what could also be a
/// placeholder in prose gets the benefit of the doubt.
pub(crate) fn scan(text: &str, guided: bool, mode: Mode) -> Scan {
    let is_tail = |byte: &u8| byte.is_ascii_whitespace() || b"}]);`".contains(byte);
    let mut scanner = Scanner {
        tail: text.len() - text.bytes().rev().take_while(is_tail).count(),
        text,
        bytes: text.as_bytes(),
        guided,
        mode,
        at: 0,
        clear_from: 0,
        marked: false,
        fence: false,
        rereading_left: text.len().saturating_mul(REREADING_MAX) + 4096,
        scan: Scan::default(),
    };
    scanner.run();
    scanner.scan
}

struct Scanner<'t> {
    /// Where the brackets and spaces start that end the text.
    tail: usize,
    text: &'t str,
    bytes: &'t [u8],
    guided: bool,
    mode: Mode,
    at: usize,
    /// Nothing but space and commas stands between here and the current position when a document
    /// there is at the start of the text, a fence, or directly behind another document.
    clear_from: usize,
    /// Whether `clear_from` is in a fence or behind a tag.
    marked: bool,
    fence: bool,
    rereading_left: usize,
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
        self.fence = !self.fence;
        self.marked = self.fence;
        if self.fence {
            // The language tag, if there is one.
            let tag = self.bytes[self.at..]
                .iter()
                .take_while(|&&byte| is_word(byte) || matches!(byte, b'+' | b'#' | b'-' | b'.'))
                .count();
            self.at += tag;
            let line = &self.bytes[self.at..];
            let rest = line.iter().take(TAG_LINE_MAX).take_while(|&&byte| byte != b'\n').count();
            // `json title="x"` and the like: what else stands on the line is part of the tag.
            let starts = |byte: &u8| matches!(byte, b'{' | b'[' | b'(' | b'"' | b'`');
            if tag > 0 && !line[..rest].iter().any(starts) {
                self.at += rest;
            }
        }
        self.clear_from = self.at;
        if self.fence {
            let content =
                self.at + self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if self.bytes.get(content) == Some(&b'(') {
                self.bracket(content);
            }
        }
    }

    /// `[TOOL_CALLS]`, `[/INST]`, `[BEGIN FINAL RESPONSE]`: a tag, not an array.
    fn tag_in_brackets(&self, at: usize) -> Option<usize> {
        let window = &self.bytes[at + 1..self.bytes.len().min(at + 48)];
        if window.starts_with(b"CDATA[") {
            return Some(at + 1 + b"CDATA[".len());
        }
        let length = window
            .iter()
            .take_while(|&&byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'/' | b' '))
            .count();
        (length > 2 && window.get(length) == Some(&b']')).then_some(at + 1 + length + 1)
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
            self.at = self.group_end(at);
            return;
        }
        let marked = (clear && self.marked) || tagged;
        match self.read(at) {
            Ok(document) if self.is_json(&document, at, relaxed, marked) => {
                let tier = self.tier(&document, marked, relaxed);
                self.at = document.end.max(at + 1);
                self.clear_from = self.at;
                self.marked = marked;
                self.scan.found.push(Found { document, tier, start: at });
            }
            Ok(document) => {
                self.spend(document.end - at);
                self.at = at + 1;
            }
            Err((failure, reached)) => {
                self.spend(reached - at);
                self.scan.too_deep |= failure == Failure::Depth;
                // What stands inside a document that cannot be read, or inside code, is only a part.
                let is_whole = failure != Failure::NotJson || self.looks_like_document(at);
                self.at = if is_whole { self.closing(at) } else { at + 1 };
            }
        }
        if self.rereading_left == 0 {
            self.at = self.bytes.len();
        }
    }

    /// Whether a bracket is followed by what follows it in a document rather than in prose.
    fn looks_like_document(&self, at: usize) -> bool {
        let window = &self.bytes[at + 1..self.bytes.len().min(at + 200)];
        let inside = window.trim_ascii_start();
        let Some(mark @ (b'"' | b'\'')) = inside.first() else { return false };
        let Some(close) = inside[1..].iter().position(|byte| byte == mark) else { return false };
        let after = inside[close + 2..].trim_ascii_start().first();
        matches!((self.bytes[at], after), (b'{', Some(b':')) | (b'[', Some(b',')))
    }

    /// Where the bracket at `at` is closed, by counting brackets; else the end of the paragraph.
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
        self.spend(self.bytes.len() - at);
        memchr::memmem::find(&self.bytes[at..], b"\n\n").map_or(self.bytes.len(), |offset| at + offset)
    }

    /// `{{` starts a template, not an object; deciding that here keeps runs of braces cheap.
    fn cannot_start(&self, at: usize) -> bool {
        self.bytes[at] == b'{'
            && self.bytes[at + 1..].iter().take(64).find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
    }

    fn spend(&mut self, bytes: usize) {
        self.rereading_left = self.rereading_left.saturating_sub(bytes);
    }

    fn read(&self, at: usize) -> Result<Document, (Failure, usize)> {
        match strict::parse(self.text, at) {
            Ok(parsed) if !self.continues(parsed.end) => Ok(Document {
                value: parsed.value,
                end: parsed.end,
                repairs: Repairs::default(),
                signs: Signs { quoted: 1, pairs: 1, ..Signs::default() },
                depth: parsed.depth,
            }),
            Err(stop) if stop.why == strict::Why::Depth => Err((Failure::Depth, stop.at)),
            _ => parse::parse(self.text, at, self.mode),
        }
    }

    /// `}, "key": …`: the document was closed too early.
    fn continues(&self, end: usize) -> bool {
        let Some(rest) = self.bytes[end..].trim_ascii_start().strip_prefix(b",") else { return false };
        self.bytes[end - 1] == b'}' && matches!(rest.trim_ascii_start().first(), Some(b'"' | b'\''))
    }

    /// Whether only space and separators stand between the last clear position and here.
    fn is_clear(&self, at: usize) -> bool {
        let gap = &self.text[self.clear_from..at];
        gap.len() < 4096 && is_blank(gap)
    }

    /// Whether a tag ends just before here: `<tool_call>`, `<|python_tag|>`, `functools`.
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
        // What a model imagines a tool to have answered is not what it says itself.
        let is_echo = ECHOES.iter().any(|echo| memchr::memmem::find(tag, echo.as_bytes()).is_some());
        inside > 0 && open > 0 && before[open - 1] == b'<' && !is_echo
    }

    /// Whether the bracket is a subscript, an argument, part of a string of program code, or the value
    /// of a key whose object was never opened.
    fn is_in_code(&self, at: usize) -> bool {
        let Some(previous) = at.checked_sub(1).map(|before| self.bytes[before]) else { return false };
        let before = self.bytes[..at].trim_ascii_end();
        match before.split_last() {
            Some((b'=', _)) => return self.is_in_call(at),
            Some((b':', key)) if matches!(key.trim_ascii_end().last(), Some(b'"' | b'\'')) => return true,
            _ => {}
        }
        if self.bytes[at] == b'{' {
            return matches!(previous, b'$' | b'%');
        }
        let called = previous == b'(' && at >= 2 && is_word(self.bytes[at - 2]);
        called
            || is_word(previous)
            || matches!(previous, b'$' | b'%' | b'\\' | b')' | b']' | b'\'' | b'"' | b'.')
    }

    /// Whether an open parenthesis behind a name stands before `at`: the arguments of a call.
    fn is_in_call(&self, at: usize) -> bool {
        let mut closed = 0_usize;
        for (index, byte) in self.bytes[..at].iter().enumerate().rev().take(CALL_WITHIN) {
            match byte {
                b')' => closed += 1,
                b'(' if closed > 0 => closed -= 1,
                b'(' => return index > 0 && is_word(self.bytes[index - 1]),
                _ => {}
            }
        }
        false
    }

    /// Whether a list is assigned to a name: `items = […]`.
    fn is_assigned(&self, at: usize) -> bool {
        self.bytes[..at].trim_ascii_end().ends_with(b"=")
    }

    /// The end of the bracketed group at `at`, so that nothing inside it is looked at.
    fn group_end(&mut self, at: usize) -> usize {
        match self.read(at) {
            Ok(document) => document.end.max(at + 1),
            Err((_, reached)) => {
                self.spend(reached - at);
                at + 1
            }
        }
    }

    /// Whether what was read is JSON, and not prose or code that happens to have brackets.
    fn is_json(&self, document: &Document, at: usize, relaxed: bool, marked: bool) -> bool {
        let signs = document.signs;
        let is_plain = |item: &serde_json::Value| !item.is_string() && !item.is_object() && !item.is_array();
        if document.value.as_array().is_some_and(|items| items.iter().all(is_plain))
            && !marked
            && !self.guided
            && !self.stands_alone(at, document.end)
        {
            // `[1]` is a footnote more often than an answer.
            return false;
        }
        let has_containers = document
            .value
            .as_array()
            .is_none_or(|items| items.iter().any(|item| item.is_object() || item.is_array()));
        if !relaxed && self.is_assigned(at) && !has_containers {
            return false;
        }
        let is_empty = document.value.as_object().is_some_and(serde_json::Map::is_empty);
        if is_empty && !relaxed && !self.ends_line(at, document.end) {
            // `println!("{}")`
            return false;
        }
        if document.repairs.is_empty() {
            return true;
        }
        let reaches_end = self.text.get(document.end..self.tail).is_none_or(is_blank);
        let solid = signs.quoted + signs.plain + (signs.objects + signs.lists).saturating_sub(1);
        if document.value.is_object() {
            if signs.pairs == 0 {
                return relaxed && reaches_end;
            }
            return solid > 0 || (relaxed && (signs.pairs > 1 || self.guided));
        }
        if signs.bare == 0 {
            return solid > 0 || (relaxed && reaches_end);
        }
        relaxed && (self.guided || reaches_end)
    }

    /// Whether the line ends behind a pair of brackets that is not in quotes.
    fn ends_line(&self, start: usize, end: usize) -> bool {
        let quoted =
            start.checked_sub(1).is_some_and(|before| matches!(self.bytes[before], b'"' | b'\'' | b'`'));
        let after =
            self.bytes[end..].iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'.' | b',' | b';'));
        !quoted && matches!(after, None | Some(b'\n' | b'<' | b'{' | b'['))
    }

    /// Whether what stands between two positions has its line to itself, but for a text before a colon.
    fn stands_alone(&self, start: usize, end: usize) -> bool {
        let before = self.bytes[..start].iter().rev().find(|byte| !matches!(byte, b' ' | b'\t'));
        let after =
            self.bytes[end..].iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'.' | b';' | b','));
        let opens = matches!(before, None | Some(b':' | b'\n' | b'>' | b']' | b'}'));
        opens && matches!(after, None | Some(b'\n' | b'<' | b'[' | b'{' | b']' | b'}' | b'/' | b'#' | b'`'))
    }

    fn tier(&self, document: &Document, marked: bool, relaxed: bool) -> Tier {
        if marked {
            return Tier::Marked;
        }
        let is_plain_list = document
            .value
            .as_array()
            .is_some_and(|items| !items.iter().any(|item| item.is_object() || item.is_array()));
        if !relaxed && (is_plain_list || self.fence) { Tier::Weak } else { Tier::Prose }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a text has nothing in it that could be data: space, separators, comments.
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

//! The tolerant parser: parses malformed JSON at an offset of a text and records every change.
//!
//! It accepts literals of other languages, missing and repeated punctuation, quotes inside strings and
//! truncated documents. It decides by the surrounding bytes and looks ahead a bounded distance, so it takes
//! linear time.

mod array;
mod lookahead;
mod object;
mod scalar;
mod string;

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;
use slipform_schema::{Segment, json_pointer};

use crate::memory::{self, OBJECT_BYTES, REPAIR_BYTES};
use crate::options::{Mode, NESTING_MAX};
use crate::repair::{Repair, RepairKind};

/// The most repairs listed for one document. Further repairs count only toward kind and cost.
const REPAIRS_MAX: usize = 1_000;

/// The longest excerpt of the text in a repair, in bytes.
const EXCERPT_MAX: usize = 120;

/// A parsed value, and the repairs and evidence from parsing it.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) value: Value,
    /// The offset after the document.
    pub(crate) end: usize,
    pub(crate) repairs: Repairs,
    pub(crate) evidence: Evidence,
    pub(crate) depth: usize,
}

/// Evidence that a text is JSON rather than prose or code with brackets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Evidence {
    /// Quoted strings, including keys.
    pub(crate) quoted: u32,
    /// Keys with a value.
    pub(crate) pairs: u32,
    /// Words without quotes, and text kept unchanged as a string.
    pub(crate) unquoted: u32,
    /// Numbers and literals.
    pub(crate) literals: u32,
    /// Objects, including the outermost.
    pub(crate) objects: u32,
    /// Arrays and tuples, including the outermost.
    pub(crate) lists: u32,
    /// Whether the text ended inside the document.
    pub(crate) is_cut: bool,
}

/// The repairs of one document.
#[derive(Debug, Clone, Default)]
pub(crate) struct Repairs {
    pub(crate) list: Vec<Repair>,
    /// The offsets in the text of the listed repairs that the parser made, which come first in the list.
    pub(crate) spans: Vec<Range<usize>>,
    /// Whether any repair, listed or not, was lossy.
    pub(crate) lossy: bool,
    /// The total cost of all repairs, listed or not.
    pub(crate) cost: u32,
}

impl Repairs {
    pub(crate) fn push(&mut self, repair: Repair) {
        self.note(repair.kind);
        if self.list.len() < REPAIRS_MAX {
            self.list.push(repair);
        }
    }

    fn note(&mut self, kind: RepairKind) {
        self.lossy |= !kind.is_lossless();
        self.cost = self.cost.saturating_add(kind.cost());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.lossy
    }
}

/// The reason why no document starts at an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Prose with brackets in it.
    NotJson,
    /// Program code.
    Code,
    /// Nested deeper than [`NESTING_MAX`].
    Depth,
    /// The values need more memory than the budget has.
    Memory,
}

/// An open container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    Object,
    Array,
    Tuple,
}

impl Frame {
    fn closer(self) -> u8 {
        match self {
            Frame::Object => b'}',
            Frame::Array => b']',
            Frame::Tuple => b')',
        }
    }
}

/// The role of a string or word in its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Key,
    Member,
    Item,
    Root,
}

/// The last token, which decides whether closing a container here loses data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastToken {
    /// A closed string, a bracket or a literal.
    Complete,
    /// A number, which may have had more digits.
    Number,
    /// A key, a colon, a comma, an opening bracket or an open string.
    Open,
}

struct Parser<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    frames: Vec<Frame>,
    path: Vec<Segment>,
    repairs: Repairs,
    evidence: Evidence,
    last: LastToken,
    deepest: usize,
    is_lenient: bool,
    /// Whether the next string is a raw string.
    is_raw: bool,
    /// The offsets of values by their JSON Pointer, if they are wanted.
    values: Option<HashMap<String, Range<usize>>>,
}

/// The most values whose offsets are kept.
const VALUES_MAX: usize = 50_000;

/// Parses the document at `start`, which is the offset of a bracket or quote. An error contains the offset
/// that was reached.
pub(crate) fn parse(text: &str, start: usize, mode: Mode) -> Result<Document, (Failure, usize)> {
    let mut parser = Parser::new(text, start, mode);
    let left = memory::left();
    let failure = match parser.value(Role::Root) {
        Ok(Some(value)) => {
            return Ok(Document {
                value,
                end: parser.at,
                repairs: parser.repairs,
                evidence: parser.evidence,
                depth: parser.deepest,
            });
        }
        Ok(None) => Failure::NotJson,
        Err(failure) => failure,
    };
    memory::restore(left);
    Err((failure, parser.at))
}

/// Returns the offsets of the values of the document at `start`, by their JSON Pointer.
pub(crate) fn locate_values(text: &str, start: usize, mode: Mode) -> HashMap<String, Range<usize>> {
    let mut parser = Parser { values: Some(HashMap::new()), ..Parser::new(text, start, mode) };
    let _ = parser.value(Role::Root);
    parser.values.unwrap_or_default()
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, start: usize, mode: Mode) -> Parser<'t> {
        Parser {
            text,
            bytes: text.as_bytes(),
            at: start,
            frames: Vec::new(),
            path: Vec::new(),
            repairs: Repairs::default(),
            evidence: Evidence::default(),
            last: LastToken::Open,
            deepest: 0,
            is_lenient: mode == Mode::Lenient,
            is_raw: false,
            values: None,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn starts_with(&self, word: &str) -> bool {
        self.bytes[self.at.min(self.bytes.len())..].starts_with(word.as_bytes())
    }

    /// Records a repair at the current location.
    fn repair(&mut self, kind: RepairKind, from: Value, to: Value) {
        self.repair_in(kind, from, to, self.at..self.at);
    }

    /// Records a repair of the text in `span`.
    fn repair_in(&mut self, kind: RepairKind, from: Value, to: Value, span: Range<usize>) {
        if self.repairs.list.len() >= REPAIRS_MAX {
            self.repairs.note(kind);
            return;
        }
        // A key may have megabytes and be the location of many repairs.
        let location = |segment: &Segment| match segment {
            Segment::Key(key) => 4 * key.len() + 1,
            Segment::Index(_) => 8,
        };
        if !memory::take_if_available(REPAIR_BYTES + self.path.iter().map(location).sum::<usize>()) {
            self.repairs.note(kind);
            return;
        }
        let pointer = json_pointer(&self.path);
        self.repairs.push(Repair { kind, pointer, from, to });
        self.repairs.spans.push(span);
    }

    /// Records a repair without a before and after value.
    fn record(&mut self, kind: RepairKind) {
        self.repair(kind, Value::Null, Value::Null);
    }

    /// Records a repair of the text between two offsets.
    fn record_text(&mut self, kind: RepairKind, start: usize, end: usize, to: Value) {
        let excerpt = excerpt(&self.text[start..end]);
        self.repair_in(kind, excerpt, to, start..end);
    }

    fn enter(&mut self, frame: Frame) -> Result<(), Failure> {
        self.at += 1;
        self.frames.push(frame);
        self.last = LastToken::Open;
        self.deepest = self.deepest.max(self.frames.len());
        if self.frames.len() > NESTING_MAX { Err(Failure::Depth) } else { Ok(()) }
    }

    fn leave(&mut self) {
        self.frames.pop();
        self.last = LastToken::Complete;
    }

    /// Closes a container without a closing bracket at the end of the text.
    fn close_at_end(&mut self) {
        if self.last == LastToken::Complete {
            self.record(RepairKind::BracketAdded);
        } else {
            self.evidence.is_cut = true;
            self.record(RepairKind::Completed);
        }
        let last = self.last;
        self.leave();
        self.last = last;
    }

    /// Skips white space and comments between tokens.
    fn skip(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                b'/' | b'#' => {
                    let Some(end) = self.comment_end(self.at) else { return };
                    self.record_text(RepairKind::CommentRemoved, self.at, end, Value::Null);
                    self.at = end;
                }
                0x0b | 0x0c => self.nonstandard_space(1),
                0x80.. => match self.space_at(self.at) {
                    Some(length) => self.nonstandard_space(length),
                    None => return,
                },
                _ => return,
            }
        }
    }

    /// Returns the length of the white space character at `at` in bytes, whether JSON allows it or not.
    fn space_at(&self, at: usize) -> Option<usize> {
        let odd = self.text.get(at..)?.chars().next()?;
        let is_space = odd.is_whitespace() || matches!(odd, '\u{feff}' | '\u{200b}' | '\u{180e}');
        is_space.then(|| odd.len_utf8())
    }

    fn nonstandard_space(&mut self, length: usize) {
        self.record_text(RepairKind::SpaceRemoved, self.at, self.at + length, Value::Null);
        self.at += length;
    }

    /// Returns the end of the comment that starts at `at`, if there is one.
    fn comment_end(&self, at: usize) -> Option<usize> {
        let rest = &self.bytes[at..];
        // `#fff` is a value; a comment has white space around its mark.
        let is_note = rest.starts_with(b"#")
            && (matches!(rest.get(1), None | Some(b' ' | b'#' | b'!' | b'\n' | b'\t'))
                || self.bytes[..at].iter().rev().find(|byte| !matches!(byte, b' ' | b'\t')) == Some(&b'\n'));
        if rest.starts_with(b"//") || is_note {
            return Some(memchr::memchr(b'\n', rest).map_or(self.bytes.len(), |offset| at + offset));
        }
        if rest.starts_with(b"/*") {
            let inside = &rest[2..];
            return Some(
                memchr::memmem::find(inside, b"*/").map_or(self.bytes.len(), |offset| at + 2 + offset + 2),
            );
        }
        None
    }

    /// Returns whether the text, or the fence or tag around the document, ends here.
    fn at_end(&self) -> bool {
        let Some(byte) = self.peek() else { return true };
        match byte {
            b'`' => self.starts_with("```") && !self.fence_is_value(),
            b'<' => self.starts_with("</") || self.starts_with("<|") || self.starts_with("<｜"),
            _ => false,
        }
    }

    /// Returns whether the backticks here quote a value (`"code": ```…```,`) instead of ending the document.
    fn fence_is_value(&self) -> bool {
        self.frames.last() == Some(&Frame::Object) && self.previous_token() == Some(b':')
    }

    /// Returns the last byte before here that is not white space.
    fn previous_token(&self) -> Option<u8> {
        self.bytes[..self.at].iter().rev().copied().find(|byte| !byte.is_ascii_whitespace())
    }

    /// Parses a value if one starts here.
    fn value(&mut self, role: Role) -> Result<Option<Value>, Failure> {
        self.skip();
        if self.at_end() {
            return Ok(None);
        }
        let Some(byte) = self.peek() else { return Ok(None) };
        let start = self.at;
        let value = self.value_at(byte, role)?;
        if let Some(values) = self.values.as_mut().filter(|values| values.len() < VALUES_MAX) {
            values.insert(json_pointer(&self.path), start..self.at);
        }
        let bytes = match &value {
            Some(Value::Object(_)) => OBJECT_BYTES,
            // A string has at most twice the capacity of its text.
            Some(Value::String(_)) => 2 * (self.at - start),
            _ => 0,
        };
        if memory::take(bytes) { Ok(value) } else { Err(Failure::Memory) }
    }

    fn value_at(&mut self, byte: u8, role: Role) -> Result<Option<Value>, Failure> {
        match byte {
            b'{' => self.object().map(Some),
            b'[' => self.array(Frame::Array).map(Some),
            b'(' => self.array(Frame::Tuple).map(Some),
            b'}' | b']' | b')' | b',' | b':' => Ok(None),
            _ => match self.quote_here() {
                Some(quote) => self.quoted_value(quote, role).map(Some),
                None => self.scalar(role),
            },
        }
    }
}

/// Returns the text, shortened to [`EXCERPT_MAX`] bytes, for a repair.
pub(crate) fn excerpt(text: &str) -> Value {
    if text.len() <= EXCERPT_MAX {
        return Value::String(text.to_owned());
    }
    let end = (0..=EXCERPT_MAX).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    Value::String(format!("{}…", &text[..end]))
}

//! Parses strings: finds where they end and resolves their escapes.

mod block;
mod ending;
mod escape;

use memchr::{memchr2, memchr3};
use serde_json::Value;

use super::{Failure, LastToken, Parser, Role};
use crate::repair::RepairKind;
use ending::Ending;

/// The quotes that may open a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    Double,
    Single,
    Backtick,
    /// “ ” „ ‟
    TypographicDouble,
    /// ‘ ’ ‚ ‛
    TypographicSingle,
    /// ´
    Acute,
    /// `\"`, in a document that was escaped as a whole.
    Escaped,
    /// Three quotes of the same kind.
    Triple(u8),
}

/// The progress of parsing a string.
#[derive(Default)]
struct Scan {
    /// The offset at which the content starts.
    start: usize,
    /// The offset of the text that is not in `content` yet.
    plain: usize,
    /// The offset at which the search for the next quote continues.
    at: usize,
    /// The content so far, with escapes resolved.
    content: String,
    /// Whether backslashes are literal: `r"…"`.
    is_raw: bool,
    /// Whether two quotes opened the string.
    is_doubled: bool,
    /// The number of quotes that are part of the content.
    inner_quotes: usize,
    /// The start and end of the last of them.
    last_quote: (usize, usize),
    /// The number of curly brackets that the content has opened and not closed.
    open_braces: usize,
    /// Whether an inner quote is unpaired so far.
    unpaired: bool,
    /// Whether the string contains escapes such as `\n`.
    letter_escapes: bool,
    /// Whether the string contains backslashes that do not start an escape.
    unknown_escapes: bool,
}

impl Scan {
    fn count_braces(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                b'{' => self.open_braces += 1,
                b'}' => self.open_braces = self.open_braces.saturating_sub(1),
                _ => {}
            }
        }
    }
}

impl Parser<'_> {
    /// Returns the quote at the current offset, if there is one.
    pub(super) fn quote_here(&self) -> Option<Quote> {
        let rest = &self.bytes[self.at..];
        match rest.first()? {
            mark @ (b'"' | b'\'' | b'`') if rest.starts_with(&[*mark; 3]) => {
                // `""""` and `"",` are an empty string and its neighbours, not a triple quote.
                let follows = rest.get(3);
                let is_triple =
                    *mark == b'`' || follows.is_some_and(|byte| !matches!(byte, b',' | b'}' | b']' | b':'));
                Some(if is_triple { Quote::Triple(*mark) } else { simple(*mark) })
            }
            mark @ (b'"' | b'\'' | b'`') => Some(simple(*mark)),
            b'\\' if rest.get(1) == Some(&b'"') => Some(Quote::Escaped),
            0xc2 if rest.get(1) == Some(&0xb4) => Some(Quote::Acute),
            0xe2 => match rest.get(1..3)? {
                [0x80, 0x9c..=0x9f] => Some(Quote::TypographicDouble),
                [0x80, 0x98..=0x9b] => Some(Quote::TypographicSingle),
                _ => None,
            },
            _ => None,
        }
    }

    /// Parses a quoted string as a value, together with strings joined to it by `+`.
    pub(super) fn quoted_value(&mut self, quote: Quote, role: Role) -> Result<Value, Failure> {
        let start = self.at;
        let mut content = self.string(quote, role)?;
        loop {
            let next = self.after_comment(self.at);
            if self.byte(next) != Some(b'+') {
                break;
            }
            self.at = next + 1;
            self.skip();
            let Some(quote) = self.quote_here() else { break };
            content.push_str(&self.string(quote, role)?);
            self.record(RepairKind::StringsJoined);
        }
        if role != Role::Root && !self.value_may_end() {
            return Ok(self.keep_text(start, role));
        }
        Ok(Value::String(content))
    }

    /// Parses a string at its opening quote.
    pub(super) fn string(&mut self, quote: Quote, role: Role) -> Result<String, Failure> {
        self.evidence.quoted += 1;
        let (start, listed) = (self.at, self.repairs.spans.len());
        let content = match quote {
            Quote::Triple(mark) => self.triple(mark),
            Quote::Double => {
                self.at += 1;
                // Most strings of a malformed document are well-formed.
                if let Some(content) = self.clean_string(role) {
                    self.last = LastToken::Complete;
                    return Ok(content);
                }
                self.at -= 1;
                self.delimited(quote, role)?
            }
            _ => {
                self.record(RepairKind::QuotesChanged);
                self.delimited(quote, role)?
            }
        };
        // Repairs inside a string concern the whole string unless they name a part.
        let end = self.at;
        let inside = self.repairs.spans.iter_mut().skip(listed);
        inside.filter(|span| span.start == span.end).for_each(|span| *span = start..end);
        Ok(content)
    }

    /// Parses a double-quoted string without escapes and control characters, if punctuation follows it.
    fn clean_string(&mut self, role: Role) -> Option<String> {
        let start = self.at;
        let offset = memchr2(b'"', b'\\', &self.bytes[start..])?;
        let end = start + offset;
        if self.byte(end) != Some(b'"')
            || !(self.closes(end + 1, role)
                || (role == Role::Key && self.value_follows_key(start, end, end + 1)))
        {
            return None;
        }
        let plain = &self.text[start..end];
        if plain.bytes().fold(false, |found, byte| found | (byte < 0x20)) {
            return None;
        }
        self.at = end + 1;
        Some(plain.to_owned())
    }

    /// Parses a string between triple quotes, or a code block that is a value.
    fn triple(&mut self, mark: u8) -> String {
        let marks = [mark; 3];
        let mut start = self.at + 3;
        self.record(RepairKind::QuotesChanged);
        // The line of the language tag is not part of a code block's content.
        let tag = if mark == b'`' { block::language_tag(&self.bytes[start..]) } else { None };
        start += tag.unwrap_or(0);
        let found = memchr::memmem::find(&self.bytes[start..], &marks);
        let end = found.map_or(self.bytes.len(), |offset| start + offset);
        self.at = (end + 3).min(self.bytes.len());
        if found.is_none() {
            self.evidence.is_cut = true;
            self.record(RepairKind::Completed);
            self.last = LastToken::Open;
        } else {
            self.last = LastToken::Complete;
        }
        let content = &self.text[start..end];
        let is_fence = mark == b'`';
        let lines = if is_fence { tag.map(|_| content) } else { block::after_opening_line(content) };
        if let Some(lines) = lines.filter(|_| self.is_lenient) {
            let dedented = block::dedent(lines);
            if !is_fence || dedented.len() < lines.trim_end().len() {
                self.record(RepairKind::IndentRemoved);
            }
            return dedented;
        }
        if is_fence { content.trim_end().trim_start_matches(' ').to_owned() } else { content.to_owned() }
    }

    /// Parses a string that ends with the quote that opened it, or should have.
    fn delimited(&mut self, quote: Quote, role: Role) -> Result<String, Failure> {
        let mut scan = self.open_string(quote, role);
        let ending = self.find_ending(&mut scan, quote, role)?;
        let mut content = scan.content;
        if ending.content > scan.plain {
            content.push_str(&self.text[scan.plain..ending.content]);
        } else if ending.content < scan.plain {
            // An escape was parsed beyond the offset at which the string ends.
            content = self.text[scan.start..ending.content.max(scan.start)].to_owned();
        }
        self.at = ending.next;
        self.last = LastToken::Complete;
        if let Some(kind) = ending.repair {
            self.record(kind);
            match kind {
                RepairKind::Completed => {
                    self.evidence.is_cut = true;
                    self.last = LastToken::Open;
                }
                // The closing quote may be of another kind.
                RepairKind::QuoteAdded => {
                    let raw = self.text[scan.start..ending.content.max(scan.start)].trim_end();
                    if let Some(path) = raw.strip_suffix('"').filter(|path| path.ends_with('\\')) {
                        // `"C:\dir\",`: the last backslash did not escape the quote.
                        content = literal(path);
                        self.record(RepairKind::EscapeGuessed);
                    }
                    content.truncate(content.trim_end().trim_end_matches(['\'', '"', '”', '’']).len());
                }
                _ => {}
            }
        }
        let raw = &self.bytes[scan.start..ending.content.max(scan.start)];
        if scan.unpaired && ending.repair.is_none() {
            // With an unpaired inner quote, either quote may have been the end.
            self.record(RepairKind::QuoteGuessed);
        }
        if scan.unknown_escapes && scan.letter_escapes {
            // `C:\dir\new`, `\d+\b`: if one backslash is literal, the others are too.
            content = literal(&self.text[scan.start..ending.content.max(scan.start)]);
            self.record(RepairKind::EscapeGuessed);
        }
        if role == Role::Key && (scan.inner_quotes > 0 || raw.contains(&b'\n')) {
            self.record(RepairKind::QuoteGuessed);
        }
        if self.is_lenient && matches!(role, Role::Member | Role::Key) && raw.last() == Some(&b'\n') {
            self.record(RepairKind::LineEndRemoved);
            content.truncate(content.trim_end().len());
        } else if raw.iter().any(|&byte| byte < 0x20) {
            self.record(RepairKind::ControlEscaped);
        }
        Ok(content)
    }

    /// Skips the opening quote, or two of them.
    fn open_string(&mut self, quote: Quote, role: Role) -> Scan {
        let length = match quote {
            Quote::Escaped | Quote::Acute => 2,
            Quote::TypographicDouble | Quote::TypographicSingle => 3,
            _ => 1,
        };
        let mut start = self.at + length;
        let is_doubled = matches!(quote, Quote::Double | Quote::Single)
            && self.byte(start) == self.byte(self.at)
            && self.byte(start + 1).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b' ')
            && !self.closes(start + 1, role)
            && self.next_mark(start + 1, quote).is_some_and(|next| {
                // `""Go," he said."` starts with a quotation; `""text""` and `""text"` start with a repeated
                // quote.
                self.byte(next + 1) == self.byte(next) || self.closes(next + 1, role)
            });
        if is_doubled {
            start += 1;
            self.record(RepairKind::QuoteGuessed);
        }
        let is_raw = std::mem::take(&mut self.is_raw);
        Scan { start, plain: start, at: start, is_doubled, is_raw, ..Scan::default() }
    }

    /// Examines one quote after the other until one of them ends the string.
    fn find_ending(&mut self, scan: &mut Scan, quote: Quote, role: Role) -> Result<Ending, Failure> {
        loop {
            let Some(stop) = self.next_mark(scan.at, quote) else {
                return self.without_end(scan, role);
            };
            let is_mark = quote == Quote::Escaped && self.byte(stop + 1) == Some(b'"');
            if self.byte(stop) == Some(b'\\') && scan.is_raw {
                scan.at = stop + 1 + self.text[stop + 1..].chars().next().map_or(0, char::len_utf8);
                continue;
            }
            if let Some(length) = self.escaped_inner_quote(stop).filter(|_| quote == Quote::Escaped) {
                scan.content.push_str(&self.text[scan.plain..stop]);
                scan.content.push('"');
                scan.at = stop + length;
                scan.plain = scan.at;
                continue;
            }
            if self.byte(stop) == Some(b'\\') && !is_mark {
                scan.content.push_str(&self.text[scan.plain..stop]);
                match self.byte(stop + 1) {
                    Some(b'n' | b't' | b'r' | b'b' | b'f') => scan.letter_escapes = true,
                    Some(b'"' | b'\\' | b'/' | b'\'' | b'`' | b'u' | b'x' | b'U' | b'\n') | None => {}
                    Some(_) => scan.unknown_escapes = true,
                }
                scan.at = self.escape(stop, &mut scan.content);
                scan.plain = scan.at;
                continue;
            }
            let length = self.mark_length(stop, quote);
            scan.count_braces(&self.bytes[scan.at..stop]);
            if let Some(ending) = self.ending_at(scan, stop, length, role)? {
                return Ok(ending);
            }
            let is_guess = self.looks_structural(stop, stop + length);
            scan.unpaired ^= !self.is_apostrophe_or_inch(stop, stop + length);
            self.record(if is_guess { RepairKind::QuoteGuessed } else { RepairKind::QuoteEscaped });
            scan.inner_quotes += 1;
            scan.last_quote = (stop, stop + length);
            scan.at = stop + length;
        }
    }

    /// Returns the length of a quote inside a string of an escaped document: `\\\"`, or `\\"` for short.
    fn escaped_inner_quote(&self, at: usize) -> Option<usize> {
        match self.bytes.get(at..)? {
            [b'\\', b'\\', b'\\', b'"', ..] => Some(4),
            [b'\\', b'\\', b'"', ..] => Some(3),
            _ => None,
        }
    }

    /// Returns the offset of the next quote that may end the string, or of a backslash.
    fn next_mark(&self, at: usize, quote: Quote) -> Option<usize> {
        let rest = self.bytes.get(at..)?;
        let found = match quote {
            Quote::Single => memchr2(b'\'', b'\\', rest),
            Quote::Backtick => {
                let ascii = memchr3(b'`', b'\'', b'\\', rest);
                // `text´ closes with an accent.
                let accent = memchr::memmem::find(&rest[..ascii.unwrap_or(rest.len())], "´".as_bytes());
                accent.or(ascii)
            }
            Quote::Acute => self.next_typographic(at, 0xc2, b'`'),
            Quote::TypographicDouble => self.next_typographic(at, 0xe2, b'"'),
            Quote::TypographicSingle => self.next_typographic(at, 0xe2, b'\''),
            _ => memchr2(b'"', b'\\', rest),
        };
        found.map(|offset| at + offset)
    }

    /// Returns the offset of the next quote that starts with the byte `lead`, of an ASCII quote or of a
    /// backslash.
    fn next_typographic(&self, at: usize, lead: u8, ascii: u8) -> Option<usize> {
        let mut from = at;
        loop {
            let offset = from + memchr3(lead, ascii, b'\\', self.bytes.get(from..)?)?;
            if self.bytes[offset] != lead || self.quote_at(offset) {
                return Some(offset - at);
            }
            from = offset + 1;
        }
    }

    /// Returns whether a quote needs no partner: `it's`, `24" screen`.
    fn is_apostrophe_or_inch(&self, start: usize, end: usize) -> bool {
        let before = start.checked_sub(1).and_then(|at| self.byte(at));
        let after = self.byte(end);
        let is_letter =
            |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte >= 0x80);
        before.is_some_and(|byte| byte.is_ascii_digit())
            || (self.byte(start) == Some(b'\'') && is_letter(before) && is_letter(after))
    }

    fn mark_length(&self, at: usize, quote: Quote) -> usize {
        match self.byte(at) {
            Some(0xe2) => 3,
            Some(0xc2) => 2,
            Some(b'\\') if quote == Quote::Escaped => 2,
            _ => 1,
        }
    }
}

/// Returns a text with literal backslashes; only escaped quotes and backslashes are resolved.
fn literal(raw: &str) -> String {
    let mut content = String::with_capacity(raw.len());
    let mut characters = raw.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some(next @ ('"' | '\\' | '\''))) => {
                content.push(*next);
                characters.next();
            }
            _ => content.push(character),
        }
    }
    content
}

fn simple(mark: u8) -> Quote {
    match mark {
        b'"' => Quote::Double,
        b'\'' => Quote::Single,
        _ => Quote::Backtick,
    }
}

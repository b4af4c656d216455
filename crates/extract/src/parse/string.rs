//! Strings: where they really end, and what their characters really are.

use memchr::{memchr2, memchr3};
use serde_json::Value;

use super::{Failure, Frame, Last, Parser, Role};
use crate::repair::RepairKind;

/// The marks a string may be opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    Double,
    Single,
    Backtick,
    /// “ ” „ ‟
    TypographicDouble,
    /// ‘ ’ ‚ ‛
    TypographicSingle,
    /// `\"`, where the document around was escaped.
    Escaped,
    /// Three of the same mark.
    Triple(u8),
}

/// Curly brackets that the text of a string has opened so far.
#[derive(Default)]
struct Braces {
    open: usize,
}

impl Braces {
    fn count(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                b'{' => self.open += 1,
                b'}' => self.open = self.open.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// How the text of a string ended.
struct Ending {
    /// Where the content ends.
    content: usize,
    /// Where reading goes on.
    next: usize,
    /// What had to be done, if anything.
    repair: Option<RepairKind>,
}

impl Parser<'_> {
    /// The quote that stands here, if one does.
    pub(super) fn quote_here(&self) -> Option<Quote> {
        let rest = &self.bytes[self.at..];
        match rest.first()? {
            mark @ (b'"' | b'\'' | b'`') if rest.starts_with(&[*mark; 3]) => {
                // `""""` and `"",` are an empty string and its neighbours, not a triple quote.
                let follows = rest.get(3);
                let is_triple = *mark == b'`' || follows.is_some_and(|byte| !matches!(byte, b',' | b'}' | b']' | b':'));
                Some(if is_triple { Quote::Triple(*mark) } else { simple(*mark) })
            }
            mark @ (b'"' | b'\'' | b'`') => Some(simple(*mark)),
            b'\\' if rest.get(1) == Some(&b'"') => Some(Quote::Escaped),
            0xe2 => match rest.get(1..3)? {
                [0x80, 0x9c..=0x9f] => Some(Quote::TypographicDouble),
                [0x80, 0x98..=0x9b] => Some(Quote::TypographicSingle),
                _ => None,
            },
            _ => None,
        }
    }

    /// Reads a string in quotes as a value, with everything that may be joined to it.
    pub(super) fn quoted_value(&mut self, quote: Quote, role: Role) -> Result<Value, Failure> {
        let start = self.at;
        let mut content = self.string(quote, role)?;
        loop {
            let (next, _) = self.after_space(self.at);
            if self.byte(next) != Some(b'+') {
                break;
            }
            self.at = next + 1;
            self.skip();
            let Some(quote) = self.quote_here() else { break };
            content.push_str(&self.string(quote, role)?);
            self.mend(RepairKind::StringsJoined);
        }
        if role != Role::Root && !self.value_may_end() {
            return Ok(self.keep_text(start, role));
        }
        Ok(Value::String(content))
    }

    /// Reads a string; the quote that opens it stands here.
    pub(super) fn string(&mut self, quote: Quote, role: Role) -> Result<String, Failure> {
        self.signs.quoted += 1;
        let content = match quote {
            Quote::Triple(mark) => self.triple(mark),
            Quote::Double => {
                self.at += 1;
                // Most strings of a broken document are well-formed themselves.
                if let Some(content) = self.clean_string(role) {
                    self.last = Last::Complete;
                    return Ok(content);
                }
                self.at -= 1;
                self.delimited(quote, role)?
            }
            _ => {
                self.mend(RepairKind::QuotesChanged);
                self.delimited(quote, role)?
            }
        };
        Ok(content)
    }

    /// A double-quoted string without escapes or controls that ends where it should.
    fn clean_string(&mut self, role: Role) -> Option<String> {
        let start = self.at;
        let offset = memchr2(b'"', b'\\', &self.bytes[start..])?;
        let end = start + offset;
        if self.byte(end) != Some(b'"') || !(self.closes(end + 1, role) || (role == Role::Key && self.value_follows_key(start, end, end + 1))) {
            return None;
        }
        let plain = &self.text[start..end];
        if plain.bytes().fold(false, |found, byte| found | (byte < 0x20)) {
            return None;
        }
        self.at = end + 1;
        Some(plain.to_owned())
    }

    fn triple(&mut self, mark: u8) -> String {
        let marks = [mark; 3];
        let mut start = self.at + 3;
        self.mend(RepairKind::QuotesChanged);
        if mark == b'`' {
            // A fence inside the document: its language tag is not part of the content.
            let line = memchr::memchr(b'\n', &self.bytes[start..]).map(|offset| start + offset);
            let is_tag = |end: usize| self.text[start..end].trim().bytes().all(|byte| byte.is_ascii_alphanumeric());
            start = line.filter(|&end| is_tag(end)).map_or(start, |end| end + 1);
        }
        let found = memchr::memmem::find(&self.bytes[start..], &marks);
        let end = found.map_or(self.bytes.len(), |offset| start + offset);
        self.at = (end + 3).min(self.bytes.len());
        if found.is_none() {
            self.signs.cut = true;
            self.mend(RepairKind::Completed);
            self.last = Last::Open;
        } else {
            self.last = Last::Complete;
        }
        let content = &self.text[start..end];
        if mark == b'`' { content.trim_end().trim_start_matches(' ').to_owned() } else { content.to_owned() }
    }

    fn delimited(&mut self, quote: Quote, role: Role) -> Result<String, Failure> {
        let opening = match quote {
            Quote::Escaped => 2,
            Quote::TypographicDouble | Quote::TypographicSingle => 3,
            _ => 1,
        };
        // `""text"` : a doubled opening quote.
        let mut start = self.at + opening;
        let mut doubled = false;
        if matches!(quote, Quote::Double | Quote::Single)
            && self.byte(start) == self.byte(self.at)
            && self.byte(start + 1).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b' ')
            && !self.closes(start + 1, role)
        {
            start += 1;
            doubled = true;
            self.mend(RepairKind::QuotesChanged);
        }
        let mut content = String::new();
        let mut plain = start;
        let mut at = start;
        let mut inner_quotes = 0_usize;
        let mut last_quote = (start, start);
        let mut braces = Braces::default();
        let ending = loop {
            let Some(stop) = self.next_mark(at, quote) else {
                // Quotes come in pairs; an odd one was the end, whatever follows it.
                if inner_quotes % 2 == 1 && role != Role::Root {
                    break Ending { content: last_quote.0, next: last_quote.1, repair: Some(RepairKind::QuotesChanged) };
                }
                break self.without_end(start, role)?;
            };
            if self.byte(stop) == Some(b'\\') && !(quote == Quote::Escaped && self.byte(stop + 1) == Some(b'"')) {
                content.push_str(&self.text[plain..stop]);
                at = self.escape(stop, &mut content);
                plain = at;
                continue;
            }
            let length = self.mark_length(stop, quote);
            braces.count(&self.bytes[at..stop]);
            if self.closes(stop + length, role) && !self.brace_is_text(stop + length, braces.open) {
                break Ending { content: stop, next: stop + length, repair: None };
            }
            if role == Role::Item && self.byte(stop + length) == Some(b'(') && !self.frames.contains(&Frame::Object) {
                // `'name'(argument)` is code.
                return Err(Failure::NotJson);
            }
            if let Some(ending) = self.ended_before(start, stop, role) {
                break ending;
            }
            if role == Role::Key && self.value_follows_key(start, stop, stop + length) {
                break Ending { content: stop, next: stop + length, repair: None };
            }
            if inner_quotes % 2 == 0 && self.is_doubled_close(stop, length, role, doubled) {
                break Ending { content: stop, next: stop + 2 * length, repair: Some(RepairKind::QuotesChanged) };
            }
            self.mend(RepairKind::QuoteEscaped);
            inner_quotes += 1;
            last_quote = (stop, stop + length);
            at = stop + length;
        };
        if ending.content > plain {
            content.push_str(&self.text[plain..ending.content]);
        } else if ending.content < plain {
            // An escape was read beyond the place where the string turned out to end.
            content = self.text[start..ending.content.max(start)].to_owned();
        }
        self.at = ending.next;
        match ending.repair {
            Some(RepairKind::Completed) => {
                self.signs.cut = true;
                self.last = Last::Open;
            }
            _ => self.last = Last::Complete,
        }
        if let Some(kind) = ending.repair {
            self.mend(kind);
            if kind == RepairKind::QuoteAdded {
                // The closing mark may be there, only of another kind.
                let kept = content.trim_end().trim_end_matches(['\'', '"', '”', '’']).len();
                content.truncate(kept);
            }
        }
        if self.lenient && role == Role::Member && self.byte(ending.content.wrapping_sub(1)) == Some(b'\n') && ending.content > start {
            self.mend(RepairKind::LineEndRemoved);
            content.truncate(content.trim_end().len());
        }
        if content.bytes().any(|byte| byte < 0x20) && self.text[start..ending.content.max(start)].bytes().any(|byte| byte < 0x20) {
            self.mend(RepairKind::ControlEscaped);
        }
        Ok(content)
    }

    /// The next position of a mark that may close the string, or of a backslash.
    fn next_mark(&self, at: usize, quote: Quote) -> Option<usize> {
        let rest = self.bytes.get(at..)?;
        let found = match quote {
            Quote::Single => memchr2(b'\'', b'\\', rest),
            Quote::Backtick => memchr3(b'`', b'\'', b'\\', rest),
            Quote::TypographicDouble | Quote::TypographicSingle => {
                let ascii = if quote == Quote::TypographicDouble { b'"' } else { b'\'' };
                let mut from = 0;
                loop {
                    let offset = from + memchr3(0xe2, ascii, b'\\', rest.get(from..)?)?;
                    if rest[offset] != 0xe2 || self.quote_at(at + offset) {
                        break Some(offset);
                    }
                    from = offset + 1;
                }
            }
            _ => memchr2(b'"', b'\\', rest),
        };
        found.map(|offset| at + offset)
    }

    fn mark_length(&self, at: usize, quote: Quote) -> usize {
        match self.byte(at) {
            Some(0xe2) => 3,
            Some(b'\\') if quote == Quote::Escaped => 2,
            _ => 1,
        }
    }

    /// `"… is {"a": "b"}, which …"`: a brace behind the quote closes one that the text has opened, and
    /// no member follows it.
    fn brace_is_text(&self, after: usize, open: usize) -> bool {
        let (brace, _) = self.after_space(after);
        if open == 0 || self.byte(brace) != Some(b'}') {
            return false;
        }
        let (next, newline) = self.after_space(brace + 1);
        match self.byte(next) {
            Some(b',') => !self.member_follows(next + 1) && !self.item_follows(next + 1),
            Some(byte) => !newline && !matches!(byte, b'}' | b']' | b')' | b'`' | b'<'),
            None => false,
        }
    }

    /// `"text""`: two closing quotes where one belongs.
    fn is_doubled_close(&self, at: usize, length: usize, role: Role, opened_doubled: bool) -> bool {
        // `"The TV is 72""`: the first of the two belongs to the text.
        let is_inch = !opened_doubled && self.byte(at.wrapping_sub(1)).is_some_and(|byte| byte.is_ascii_digit());
        length == 1 && self.byte(at + 1) == self.byte(at) && self.closes(at + 2, role) && !is_inch
    }

    /// Whether the mark at `stop` opens what comes next, so that this string ended before it without a
    /// closing quote: `"text,⏎ "key": …`.
    fn ended_before(&self, start: usize, stop: usize, role: Role) -> Option<Ending> {
        let content = &self.bytes[start..stop];
        if role == Role::Key {
            // `"key:"value"`
            let is_key = content.last() == Some(&b':') && content.len() > 1 && !content.contains(&b'\n');
            return is_key.then(|| Ending { content: stop - 1, next: stop - 1, repair: Some(RepairKind::QuoteAdded) });
        }
        let (between, commented) = run_before(content);
        if between == 0 {
            return None;
        }
        let run = &content[content.len() - between..];
        let has = |byte: u8| run.contains(&byte);
        let in_object = self.frames.contains(&Frame::Object);
        let opens_key = in_object && self.key_at(stop) && (has(b',') || has(b'\n')) && !run.ends_with(b"{");
        let opens_item = role == Role::Item
            && has(b',')
            && (has(b'\n') || commented)
            && self.byte(stop + 1).is_some_and(|byte| byte.is_ascii_alphanumeric());
        let joins = has(b'+') && (has(b'\n') || commented);
        if !opens_key && !opens_item && !joins {
            return None;
        }
        // Closing brackets that the text itself has opened belong to it: `(approximately)`.
        let mut end = stop - between;
        let mut open = unclosed(&self.bytes[start..end]);
        while let Some(index) = self.byte(end).and_then(|byte| b")]}".iter().position(|&closer| closer == byte)) {
            if open[index] == 0 {
                break;
            }
            open[index] -= 1;
            end += 1;
        }
        Some(Ending { content: end, next: end, repair: Some(RepairKind::QuoteAdded) })
    }

    /// The end of a string whose closing quote never comes.
    fn without_end(&self, start: usize, role: Role) -> Result<Ending, Failure> {
        let rest = &self.text[start..];
        if role == Role::Key {
            let is_cut = !rest.contains(['\n', '}', ']']) || self.signs.pairs > 0;
            let end = self.bytes.len();
            return if is_cut {
                Ok(Ending { content: end, next: end, repair: Some(RepairKind::Completed) })
            } else {
                Err(Failure::NotJson)
            };
        }
        let fence = memchr::memmem::find(rest.as_bytes(), b"\n```");
        let end = start + fence.unwrap_or(rest.len());
        if let Some(closing) = self.closing_brackets(start, end) {
            let content = self.text[start..closing].trim_end();
            if role == Role::Member && let Some(comma) = member_at_end(content) {
                return Ok(Ending { content: start + comma, next: start + comma, repair: Some(RepairKind::QuoteAdded) });
            }
            // `"text +]`: nothing was joined.
            let content = start + content.strip_suffix(" +").unwrap_or(content).len();
            return Ok(Ending { content, next: closing, repair: Some(RepairKind::QuoteAdded) });
        }
        Ok(Ending { content: end, next: end, repair: Some(RepairKind::Completed) })
    }

    /// Where the brackets start that close everything at the end of the text: then only the quote is
    /// missing, and nothing was cut off.
    fn closing_brackets(&self, start: usize, end: usize) -> Option<usize> {
        let mut wanted = self.frames.iter();
        let mut frame = wanted.next()?;
        for (offset, &byte) in self.bytes[start..end].iter().enumerate().rev() {
            if byte.is_ascii_whitespace() || byte == b'`' {
                continue;
            }
            if byte != frame.closer() {
                return None;
            }
            match wanted.next() {
                Some(next) => frame = next,
                None => return Some(start + offset),
            }
        }
        None
    }

    /// `{"key" "value"}`: the colon is missing, but the key is a name and a value follows.
    fn value_follows_key(&self, start: usize, end: usize, after: usize) -> bool {
        let name = &self.bytes[start..end];
        let is_name = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let (next, _) = self.after_space(after);
        let starts_value = self.quote_at(next) && !self.key_at(next) || matches!(self.byte(next), Some(b'{' | b'['));
        is_name && next > after && (starts_value || self.literal_at(next))
    }

    /// Reads the escape sequence at `at` into `content`, and says where reading goes on.
    fn escape(&mut self, at: usize, content: &mut String) -> usize {
        let standard = |character: char| (character, 2, None);
        let changed = |character: char, length: usize| (character, length, Some(RepairKind::EscapeChanged));
        let (character, length, repair) = match self.byte(at + 1) {
            Some(b'"') => standard('"'),
            Some(b'\\') => standard('\\'),
            Some(b'/') => standard('/'),
            Some(b'b') => standard('\u{8}'),
            Some(b'f') => standard('\u{c}'),
            Some(b'n') => standard('\n'),
            Some(b'r') => standard('\r'),
            Some(b't') => standard('\t'),
            Some(b'u') => match self.unicode_escape(at) {
                Some((character, length, kind)) => (character, length, kind),
                None if self.bytes[at + 2..].len() < 4 && self.bytes[at + 2..].iter().all(u8::is_ascii_hexdigit) => {
                    self.mend(RepairKind::Completed);
                    return self.bytes.len();
                }
                None => changed('\\', 1),
            },
            Some(b'x') => match self.hex(at + 2, 2).and_then(char::from_u32) {
                Some(character) => changed(character, 4),
                None => changed('\\', 1),
            },
            Some(b'\'' | b'`') => changed(char::from(self.bytes[at + 1]), 2),
            Some(b'\n') => {
                self.mend(RepairKind::EscapeChanged);
                return at + 2;
            }
            // The text ends in the middle of an escape.
            None => {
                self.mend(RepairKind::Completed);
                return at + 1;
            }
            Some(0xe2) if self.quote_at(at + 1) => {
                self.mend(RepairKind::EscapeChanged);
                return at + 1;
            }
            // `\d`, `\(`: the backslash is part of the text, as in a pattern or a path.
            Some(_) => changed('\\', 1),
        };
        content.push(character);
        if let Some(kind) = repair {
            self.mend(kind);
        }
        at + length
    }

    fn unicode_escape(&self, at: usize) -> Option<(char, usize, Option<RepairKind>)> {
        let first = self.hex(at + 2, 4)?;
        if let Some(character) = char::from_u32(first) {
            return Some((character, 6, None));
        }
        let paired = (first < 0xDC00 && self.bytes[at + 6..].starts_with(b"\\u"))
            .then(|| self.hex(at + 8, 4))
            .flatten()
            .filter(|second| (0xDC00..0xE000).contains(second));
        match paired.and_then(|second| char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))) {
            Some(character) => Some((character, 12, None)),
            None => Some((char::REPLACEMENT_CHARACTER, 6, Some(RepairKind::CharacterReplaced))),
        }
    }

    fn hex(&self, at: usize, digits: usize) -> Option<u32> {
        let text = self.text.get(at..at + digits)?;
        text.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(text, 16).ok()).flatten()
    }
}

/// How much of the end of `content` is space, punctuation and comments, and whether a comment is there.
fn run_before(content: &[u8]) -> (usize, bool) {
    let mut rest = content;
    let mut commented = false;
    loop {
        let is_between = |byte: &u8| byte.is_ascii_whitespace() || b",()[]{}+".contains(byte);
        let kept = rest.len() - rest.iter().rev().take(256).take_while(|byte| is_between(byte)).count();
        rest = &rest[..kept];
        let window = &rest[rest.len().saturating_sub(128)..];
        if !window.ends_with(b"*/") {
            return (content.len() - kept, commented);
        }
        let Some(open) = memchr::memmem::rfind(window, b"/*") else { return (content.len() - kept, commented) };
        commented = true;
        rest = &rest[..rest.len() - (window.len() - open)];
    }
}

/// How many round, square and curly brackets a text opens and does not close.
fn unclosed(text: &[u8]) -> [usize; 3] {
    let mut open = [0_usize; 3];
    for byte in text {
        match byte {
            b'(' => open[0] += 1,
            b'[' => open[1] += 1,
            b'{' => open[2] += 1,
            b')' => open[0] = open[0].saturating_sub(1),
            b']' => open[1] = open[1].saturating_sub(1),
            b'}' => open[2] = open[2].saturating_sub(1),
            _ => {}
        }
    }
    open
}

/// `first, b: true`: the comma before a member without quotes that ends the text.
fn member_at_end(content: &str) -> Option<usize> {
    let (before, value) = content.rsplit_once(": ")?;
    let comma = before.rfind(", ")?;
    let name = &before[comma + 2..];
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_plain = matches!(value, "true" | "false" | "null") || value.parse::<f64>().is_ok();
    (is_name && is_plain).then_some(comma)
}

fn simple(mark: u8) -> Quote {
    match mark {
        b'"' => Quote::Double,
        b'\'' => Quote::Single,
        _ => Quote::Backtick,
    }
}

//! Finds the end of a string when its quotes do not determine it.

use super::Scan;
use crate::parse::{Failure, Frame, Parser, Role};
use crate::repair::RepairKind;

/// The longest part of a key searched for its end, in bytes.
const KEY_MAX: usize = 200;

/// The longest rest of an array searched for paired quotes, in bytes.
const LIST_MAX: usize = 256;

/// The end of a string.
pub(super) struct Ending {
    /// The offset at which the content ends.
    pub(super) content: usize,
    /// The offset at which parsing continues.
    pub(super) next: usize,
    /// The repair that this end requires, if any.
    pub(super) repair: Option<RepairKind>,
}

impl Parser<'_> {
    /// Decides whether the string ends at the quote at `stop`, or before it. Returns `None` if the quote is
    /// part of the content.
    pub(super) fn ending_at(
        &self,
        scan: &Scan,
        stop: usize,
        length: usize,
        role: Role,
    ) -> Result<Option<Ending>, Failure> {
        let after = stop + length;
        if self.closes(after, role) && !self.brace_is_text(after, scan.open_braces) {
            return Ok(Some(Ending { content: stop, next: after, repair: None }));
        }
        // `"text""key": …`
        let key_follows = role == Role::Member && self.byte(after) == Some(b'"') && self.key_at(after);
        let item_follows = role == Role::Item && self.unopened_item_follows(after);
        if scan.inner_quotes == 0 && (key_follows || item_follows) {
            return Ok(Some(Ending { content: stop, next: after, repair: Some(RepairKind::QuoteGuessed) }));
        }
        if role == Role::Item && self.byte(after) == Some(b'(') && !self.frames.contains(&Frame::Object) {
            // A call in program code: `'name'(argument)`
            return Err(Failure::Code);
        }
        if let Some(ending) = self.ended_before(scan.start, stop, role) {
            return Ok(Some(ending));
        }
        if role == Role::Key && self.value_follows_key(scan.start, stop, after) {
            return Ok(Some(Ending { content: stop, next: after, repair: None }));
        }
        let may_be_doubled = scan.inner_quotes.is_multiple_of(2);
        if may_be_doubled && self.is_doubled_close(stop, length, role, scan.is_doubled) {
            let repair = Some(RepairKind::QuotesChanged);
            return Ok(Some(Ending { content: stop, next: after + length, repair }));
        }
        Ok(None)
    }

    /// Returns whether a comma and a word without its opening quote follow: `"first", second", …`.
    fn unopened_item_follows(&self, after: usize) -> bool {
        let (comma, _) = self.after_space(after);
        if self.byte(comma) != Some(b',') {
            return false;
        }
        let (word, _) = self.after_space(comma + 1);
        let window = &self.bytes[word.min(self.bytes.len())..self.bytes.len().min(word + KEY_MAX)];
        let length = window
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'_'))
            .count();
        let (next, _) = self.after_space(word + length + 1);
        length > 0 && window.get(length) == Some(&b'"') && matches!(self.byte(next), Some(b',' | b']'))
    }

    /// Returns whether the brace after the quote closes one in the content, and no member follows: `"… is
    /// {"a": "b"}, which …"`.
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

    /// Returns whether two closing quotes end the string: `"text""`.
    fn is_doubled_close(&self, at: usize, length: usize, role: Role, opened_doubled: bool) -> bool {
        // `"The TV is 72""`: the first quote belongs to the content.
        let is_inch =
            !opened_doubled && self.byte(at.wrapping_sub(1)).is_some_and(|byte| byte.is_ascii_digit());
        length == 1 && self.byte(at + 1) == self.byte(at) && self.closes(at + 2, role) && !is_inch
    }

    /// Returns the end of a string without closing quote, if the quote at `stop` opens the next token:
    /// `"text,⏎ "key": …`.
    fn ended_before(&self, start: usize, stop: usize, role: Role) -> Option<Ending> {
        let content = &self.bytes[start..stop];
        if role == Role::Key {
            // `"key: "value"` and `"key: 5,⏎ "next": …`
            let content = &content[..content.len().min(KEY_MAX)];
            let line = content.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let colon = line.iter().position(|&byte| byte == b':').filter(|&colon| colon > 0);
            let is_open = line.len() < content.len() || content.trim_ascii_end().last() == Some(&b':');
            return colon.filter(|_| is_open).map(|colon| {
                let end = start + colon;
                Ending { content: end, next: end, repair: Some(RepairKind::QuoteAdded) }
            });
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
            && (has(b'\n') || commented || self.rest_is_paired(stop))
            && self.byte(stop + 1).is_some_and(|byte| byte.is_ascii_alphanumeric());
        let joins = has(b'+') && !has(b',') && (has(b'\n') || commented);
        if !opens_key && !opens_item && !joins {
            return None;
        }
        // Closing brackets that the content opened belong to it: `(approximately)`.
        let mut end = stop - between;
        if !joins {
            end += self.bytes[end..stop].iter().take_while(|&&byte| byte == b'+').count();
        }
        let mut open = unclosed(&self.bytes[start..end]);
        while let Some(index) =
            self.byte(end).and_then(|byte| b")]}".iter().position(|&closer| closer == byte))
        {
            if open[index] == 0 {
                break;
            }
            open[index] -= 1;
            end += 1;
        }
        Some(Ending { content: end, next: end, repair: Some(RepairKind::QuoteAdded) })
    }

    /// Returns whether the quotes from `stop` to the end of the array come in pairs, so that the quote at
    /// `stop` opens an item: `["first, "second"]`.
    fn rest_is_paired(&self, stop: usize) -> bool {
        let window = &self.bytes[stop..self.bytes.len().min(stop + LIST_MAX)];
        let Some(end) = window.iter().position(|byte| matches!(byte, b']' | b'\n' | b'\\')) else {
            return false;
        };
        window[end] == b']' && window[..end].iter().filter(|&&byte| byte == b'"').count() % 2 == 0
    }

    /// Returns the end of a string that has no closing quote.
    pub(super) fn without_end(&self, scan: &Scan, role: Role) -> Result<Ending, Failure> {
        let start = scan.start;
        // Quotes come in pairs, so an odd one was the end.
        if scan.inner_quotes % 2 == 1 && role != Role::Root {
            let (content, next) = scan.last_quote;
            return Ok(Ending { content, next, repair: Some(RepairKind::QuoteAdded) });
        }
        let rest = &self.text[start..];
        if role == Role::Key {
            // `{"first": 4, "second: 5}`
            let line = &rest.as_bytes()[..rest.len().min(KEY_MAX)];
            let name = line.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
            let colon = start + name;
            if name > 0
                && self.evidence.pairs > 0
                && self.byte(colon) == Some(b':')
                && self.literal_at(self.after_space(colon + 1).0)
            {
                return Ok(Ending { content: colon, next: colon, repair: Some(RepairKind::QuoteAdded) });
            }
            let is_cut = !rest.contains(['\n', '}', ']']) || self.evidence.pairs > 0;
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
            if role == Role::Member
                && let Some(comma) = member_at_end(content)
            {
                return Ok(Ending {
                    content: start + comma,
                    next: start + comma,
                    repair: Some(RepairKind::QuoteAdded),
                });
            }
            // `"text +]`: nothing was joined.
            let content = start + content.strip_suffix(" +").unwrap_or(content).len();
            return Ok(Ending { content, next: closing, repair: Some(RepairKind::QuoteAdded) });
        }
        Ok(Ending { content: end, next: end, repair: Some(RepairKind::Completed) })
    }

    /// Returns the start of the brackets that close every container at the end of the text. If it exists,
    /// only the quote is missing and the text is not truncated.
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

    /// Returns whether a value follows a key without a colon: `{"key" "value"}`.
    pub(super) fn value_follows_key(&self, start: usize, end: usize, after: usize) -> bool {
        let name = &self.bytes[start..end];
        let is_name = !name.is_empty()
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let (next, _) = self.after_space(after);
        let starts_value =
            self.quote_at(next) && !self.key_at(next) || matches!(self.byte(next), Some(b'{' | b'['));
        let is_adjacent = next == after && self.byte(next) == Some(b'{') && self.key_at(next + 1);
        is_name && (is_adjacent || next > after && (starts_value || self.literal_at(next)))
    }
}

/// Returns the number of trailing bytes of `content` that are white space, punctuation and comments, and
/// whether there is a comment.
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
        let Some(open) = memchr::memmem::rfind(window, b"/*") else {
            return (content.len() - kept, commented);
        };
        commented = true;
        rest = &rest[..rest.len() - (window.len() - open)];
    }
}

/// Returns how many round, square and curly brackets a text opens and does not close.
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

/// Returns the offset of the comma before an unquoted member at the end: `first, b: true`.
fn member_at_end(content: &str) -> Option<usize> {
    let (before, value) = content.rsplit_once(": ")?;
    let comma = before.rfind(", ")?;
    let name = &before[comma + 2..];
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_plain = matches!(value, "true" | "false" | "null") || value.parse::<f64>().is_ok();
    (is_name && is_plain).then_some(comma)
}

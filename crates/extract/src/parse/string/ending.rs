//! Where a string really ends, when its marks do not tell.

use super::Scan;
use crate::parse::{Failure, Frame, Parser, Role};
use crate::repair::RepairKind;

/// How much of a key is looked at to tell where it ends.
const KEY_MAX: usize = 200;

/// How the text of a string ended.
pub(super) struct Ending {
    /// Where the content ends.
    pub(super) content: usize,
    /// Where reading goes on.
    pub(super) next: usize,
    /// What had to be done, if anything.
    pub(super) repair: Option<RepairKind>,
}

impl Parser<'_> {
    /// Decides whether the string ends at the mark at `stop`, or ended before it. `None` when the mark
    /// is part of the text.
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
        if role == Role::Item && self.byte(after) == Some(b'(') && !self.frames.contains(&Frame::Object) {
            // `'name'(argument)`
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
        let is_inch =
            !opened_doubled && self.byte(at.wrapping_sub(1)).is_some_and(|byte| byte.is_ascii_digit());
        length == 1 && self.byte(at + 1) == self.byte(at) && self.closes(at + 2, role) && !is_inch
    }

    /// Whether the mark at `stop` opens what comes next, so that this string ended before it without a
    /// closing quote: `"text,⏎ "key": …`.
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
            && (has(b'\n') || commented)
            && self.byte(stop + 1).is_some_and(|byte| byte.is_ascii_alphanumeric());
        let joins = has(b'+') && (has(b'\n') || commented);
        if !opens_key && !opens_item && !joins {
            return None;
        }
        // Closing brackets that the text itself has opened belong to it: `(approximately)`.
        let mut end = stop - between;
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

    /// The end of a string whose closing quote never comes.
    pub(super) fn without_end(&self, scan: &Scan, role: Role) -> Result<Ending, Failure> {
        let start = scan.start;
        // Quotes come in pairs; an odd one was the end, whatever follows it.
        if scan.inner_quotes % 2 == 1 && role != Role::Root {
            let (content, next) = scan.last_quote;
            return Ok(Ending { content, next, repair: Some(RepairKind::QuoteAdded) });
        }
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
    pub(super) fn value_follows_key(&self, start: usize, end: usize, after: usize) -> bool {
        let name = &self.bytes[start..end];
        let is_name = !name.is_empty()
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let (next, _) = self.after_space(after);
        let starts_value =
            self.quote_at(next) && !self.key_at(next) || matches!(self.byte(next), Some(b'{' | b'['));
        is_name && next > after && (starts_value || self.literal_at(next))
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
        let Some(open) = memchr::memmem::rfind(window, b"/*") else {
            return (content.len() - kept, commented);
        };
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

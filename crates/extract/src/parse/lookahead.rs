//! Bounded lookahead. The bounds keep parsing linear, although every quote needs lookahead.

use super::{Frame, Parser, Role};

/// The most white space skipped during lookahead, in bytes.
const SPACE_MAX: usize = 256;

/// The longest key recognised by lookahead, in bytes.
const KEY_MAX: usize = 100;

impl Parser<'_> {
    /// Returns the offset after white space, and whether a line ended there.
    #[inline]
    pub(super) fn after_space(&self, mut at: usize) -> (usize, bool) {
        let mut newline = false;
        let end = at + SPACE_MAX;
        while at < end {
            match self.byte(at) {
                Some(b'\n') => newline = true,
                Some(b' ' | b'\t' | b'\r') => {}
                Some(0x80..) => return self.after_nonstandard_space(at, newline),
                _ => break,
            }
            at += 1;
        }
        (at, newline)
    }

    /// Returns what [`Parser::after_space`] returns, if the white space may contain characters that JSON does
    /// not allow.
    #[cold]
    fn after_nonstandard_space(&self, mut at: usize, mut newline: bool) -> (usize, bool) {
        let end = at + SPACE_MAX;
        while at < end {
            let Some(length) = self.space_at(at) else { break };
            newline |= self.byte(at) == Some(b'\n');
            at += length;
        }
        (at, newline)
    }

    /// Returns the offset after white space and one comment.
    pub(super) fn after_comment(&self, at: usize) -> usize {
        let (next, _) = self.after_space(at);
        let end = if next < self.bytes.len() { self.comment_end(next) } else { None };
        end.map_or(next, |end| self.after_space(end).0)
    }

    /// Returns whether a key and its colon start at `at`.
    pub(super) fn key_at(&self, at: usize) -> bool {
        let Some(first) = self.byte(at) else { return false };
        let window = &self.bytes[at..self.bytes.len().min(at + KEY_MAX)];
        let end = match first {
            b'"' | b'\'' | b'`' => {
                let Some(close) = window[1..].iter().position(|&byte| byte == first || byte == b'\n') else {
                    return false;
                };
                if window[1 + close] == b'\n' {
                    return false;
                }
                // A key with repeated quotes: `""key"":`
                let doubled = close == 0 && window.get(2).is_some_and(u8::is_ascii_alphanumeric);
                if doubled {
                    let name = window[2..].iter().take_while(|&&byte| byte != first && byte != b'\n').count();
                    at + 2 + name + 2
                } else {
                    at + 1 + close + 1
                }
            }
            0xe2 if self.quote_at(at) => {
                let close = window[3..].windows(3).position(|mark| matches!(mark, [0xe2, 0x80, 0x98..=0x9f]));
                let Some(close) = close else { return false };
                at + 3 + close + 3
            }
            0xc2 if self.quote_at(at) => {
                let Some(close) = memchr::memmem::find(&window[2..], "´".as_bytes()) else { return false };
                at + 2 + close + 2
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'0'..=b'9' | 0xc3..=0xf4 => {
                let is_part =
                    |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-' | 0x80..);
                let end = at + window.iter().take_while(|byte| is_part(byte)).count();
                // `key":`, without the opening quote.
                end + usize::from(self.byte(end) == Some(b'"'))
            }
            _ => return false,
        };
        let (mut colon, newline) = self.after_space(end);
        if self.bytes[colon.min(self.bytes.len())..].starts_with(b"/*") {
            let window = &self.bytes[colon..self.bytes.len().min(colon + KEY_MAX)];
            let Some(length) = memchr::memmem::find(window, b"*/") else { return false };
            colon = self.after_space(colon + length + 2).0;
        }
        self.byte(colon) == Some(b':') && !newline && !self.bytes[colon + 1..].starts_with(b"//")
    }

    /// Returns whether an ASCII or typographic quote is at `at`.
    pub(super) fn quote_at(&self, at: usize) -> bool {
        match self.byte(at) {
            Some(b'"' | b'\'' | b'`') => true,
            Some(0xe2) => matches!(self.bytes.get(at + 1..at + 3), Some([0x80, 0x98..=0x9f])),
            Some(0xc2) => self.byte(at + 1) == Some(0xb4),
            _ => false,
        }
    }

    /// Returns whether a string in this role may end just before `after`, judged by the text that follows.
    pub(super) fn closes(&self, after: usize, role: Role) -> bool {
        let (next, newline) = self.after_space(after);
        let Some(byte) = self.byte(next) else { return true };
        if role == Role::Key {
            // `"key"="value"`, and `"key" /* comment */ : value`
            let is_assigned =
                byte == b'=' && (self.bytes[next..].starts_with(b"=>") || self.quote_at(next + 1));
            let is_noted = byte == b'/' && self.byte(self.after_comment(next)) == Some(b':');
            return byte == b':' || is_assigned || is_noted;
        }
        match byte {
            b',' if role == Role::Member => self.member_follows(next + 1),
            b';' if role == Role::Member => self.key_at(self.after_space(next + 1).0),
            b',' => self.item_follows(next + 1),
            b'}' | b']' | b')' if self.is_open(byte) => self.closer_fits(byte, next + 1),
            b'/' => self.comment_end(next).is_some(),
            b'#' => self.comment_end(next).is_some(),
            b'`' => self.bytes[next..].starts_with(b"```"),
            b'<' => self.bytes[next..].starts_with(b"</") || self.bytes[next..].starts_with(b"<|"),
            b'+' => self.quote_at(self.after_comment(next + 1)),
            _ if role == Role::Root => false,
            _ if role == Role::Member => self.key_at(next) && (newline || next > after),
            b':' => role == Role::Item && self.frames.last() == Some(&Frame::Array),
            b'{' | b'[' | b'(' => newline,
            _ if self.quote_at(next) => newline || self.opens(next, after),
            _ => next > after && self.literal_at(next) && self.word_is_item(next),
        }
    }

    /// Returns whether a quote inside a string is where punctuation between values would be: `", "`, `": "`,
    /// `"} {`.
    pub(super) fn looks_structural(&self, stop: usize, after: usize) -> bool {
        let starts = |at: usize| self.quote_at(at) || matches!(self.byte(at), Some(b'{' | b'[' | b'('));
        let (next, _) = self.after_space(after);
        let ends = match self.byte(next) {
            Some(b',' | b':' | b';') => starts(self.after_space(next + 1).0),
            Some(b'}' | b']') => {
                let (follower, _) = self.after_space(next + 1);
                starts(follower) || self.byte(follower) == Some(b',')
            }
            _ => false,
        };
        let before = self.bytes[stop.saturating_sub(64)..stop].trim_ascii_end();
        let opens = match before.split_last() {
            Some((b',' | b':' | b';', rest)) => {
                matches!(rest.trim_ascii_end().last(), Some(b'"' | b'\'' | b'}' | b']'))
            }
            _ => false,
        };
        ends || opens
    }

    /// Returns whether the quote opens another string, as in `"a" "b"`: a character precedes the first quote
    /// and follows the second.
    fn opens(&self, quote: usize, after: usize) -> bool {
        let touches = |byte: Option<u8>| byte.is_some_and(|byte| !byte.is_ascii_whitespace());
        let begins = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte >= 0x80);
        quote > after && touches(self.byte(after.wrapping_sub(2))) && begins(self.byte(quote + 1))
    }

    /// Returns whether two short strings are next to each other: `"key" "value"`.
    pub(super) fn pair_at(&self, at: usize) -> bool {
        let window = &self.bytes[at + 1..self.bytes.len().min(at + KEY_MAX)];
        let Some(close) = window.iter().position(|byte| matches!(byte, b'"' | b'\n')) else { return false };
        let (next, newline) = self.after_space(at + 1 + close + 1);
        let starts_value =
            self.quote_at(next) || self.literal_at(next) || matches!(self.byte(next), Some(b'{' | b'['));
        let is_apart = next > at + close + 2 || self.byte(next) == Some(b'{') && self.key_at(next + 1);
        window[close] == b'"' && close > 0 && !newline && is_apart && starts_value
    }

    /// Returns whether a key, the end of the line or the end of the object follows a comma.
    pub(super) fn member_follows(&self, at: usize) -> bool {
        let (next, newline) = self.after_space(at);
        let Some(byte) = self.byte(next) else { return true };
        newline
            || matches!(byte, b'}' | b']' | b')' | b',')
            || self.key_at(next)
            || self.trails_off(next)
            || (self.quote_at(next) && (self.pair_at(next) || self.open_key_at(next)))
            || (byte == b'{' && self.is_in_list())
            || self.key_is_cut(next)
            || self.word_before_key(next)
    }

    /// Returns whether a key without a closing quote, or without a value, is at `at`: `"key: 5}`, `"key"}`.
    fn open_key_at(&self, at: usize) -> bool {
        let window = &self.bytes[at + 1..self.bytes.len().min(at + KEY_MAX)];
        let length = window.iter().take_while(|&&byte| byte.is_ascii_alphanumeric() || byte == b'_').count();
        let end = at + 1 + length;
        let (next, newline) = self.after_space(end + 1);
        match self.byte(end) {
            Some(b':') => {
                let starts_value = self.quote_at(next) || matches!(self.byte(next), Some(b'{' | b'['));
                length > 0 && !newline && (starts_value || self.literal_at(next))
            }
            Some(b'"') => length > 0 && self.byte(at) == Some(b'"') && self.byte(next) == Some(b'}'),
            _ => false,
        }
    }

    /// Returns whether the text ends inside the next key: `, "ke`.
    fn key_is_cut(&self, at: usize) -> bool {
        let rest = &self.bytes[at..];
        if rest.len() < KEY_MAX && rest[0].is_ascii_alphabetic() {
            return rest.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        }
        let is_short = rest.len() < KEY_MAX && self.quote_at(at) && !rest.contains(&b'\n');
        is_short
            && rest[1..]
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'"' | b'\'' | b' '))
            && rest[1..].iter().filter(|byte| matches!(byte, b'"' | b'\'')).count() <= 1
    }

    /// Returns whether a stray word precedes the next key: `, COMMENT "key": …`.
    fn word_before_key(&self, at: usize) -> bool {
        let window = &self.bytes[at..self.bytes.len().min(at + KEY_MAX)];
        let length = window.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let (next, newline) = self.after_space(at + length);
        length > 0 && !newline && self.quote_at(next) && self.key_at(next)
    }

    /// Returns whether an item may follow a comma inside an array.
    pub(super) fn item_follows(&self, at: usize) -> bool {
        let (next, newline) = self.after_space(at);
        let Some(byte) = self.byte(next) else { return true };
        newline
            || matches!(byte, b'{' | b'[' | b'(' | b']' | b')' | b'}' | b',')
            || self.quote_at(next)
            || self.trails_off(next)
            || self.word_is_item(next)
    }

    /// Returns whether a comment or an ellipsis starts at `at`.
    fn trails_off(&self, at: usize) -> bool {
        let rest = &self.bytes[at..];
        self.comment_end(at).is_some() || rest.starts_with(b"...") || rest.starts_with("…".as_bytes())
    }

    /// Returns whether a number or unquoted words precede the next comma or bracket.
    fn word_is_item(&self, at: usize) -> bool {
        let window = &self.bytes[at..self.bytes.len().min(at + KEY_MAX)];
        let is_part = |byte: &u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'+' | b' ' | b'(' | b')')
        };
        let length = window.iter().take_while(|byte| is_part(byte)).count();
        let (next, newline) = self.after_space(at + length);
        length > 0 && (newline || matches!(self.byte(next), None | Some(b',' | b']' | b')' | b'}')))
    }

    /// Returns whether a number, `true`, `false` or `null` is at `at`.
    pub(super) fn literal_at(&self, at: usize) -> bool {
        let rest = &self.bytes[at.min(self.bytes.len())..];
        let length = rest
            .iter()
            .take(32)
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+'))
            .count();
        let word = &rest[..length];
        matches!(word, b"true" | b"false" | b"null" | b"True" | b"False" | b"None")
            || (word.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
                && word.iter().any(u8::is_ascii_digit))
    }

    /// Returns whether a closing bracket just before `at` is plausible, judged by the text that follows.
    pub(super) fn closer_fits(&self, closer: u8, at: usize) -> bool {
        let is_innermost = self.frames.last().is_some_and(|frame| frame.closer() == closer);
        let (next, newline) = self.after_space(at);
        match self.byte(next) {
            None | Some(b',' | b']' | b'}' | b')' | b'`' | b'<' | b'/' | b';') => true,
            Some(b'{' | b'[') => newline || (is_innermost && (self.is_in_list() || self.frames.len() == 1)),
            Some(b'(') => newline || closer == b')',
            Some(_) if self.quote_at(next) => {
                let goes_on = self.frames.len() > 1 && self.key_at(next);
                goes_on || (newline && (self.key_at(next) || self.is_in_list()))
            }
            Some(_) => newline || self.frames.len() == 1,
        }
    }

    /// Returns whether the innermost container is an item of an array.
    pub(super) fn is_in_list(&self) -> bool {
        matches!(self.frames.as_slice(), [.., Frame::Array | Frame::Tuple, _])
    }

    /// Returns whether an open container is closed by `closer`.
    pub(super) fn is_open(&self, closer: u8) -> bool {
        self.frames.iter().any(|frame| frame.closer() == closer)
    }
}

//! Parses escape sequences of JSON and other languages, and literal backslashes.

use crate::parse::Parser;
use crate::repair::RepairKind;

impl Parser<'_> {
    /// Parses the escape sequence at `at` into `content`. Returns the offset at which parsing continues.
    pub(super) fn escape(&mut self, at: usize, content: &mut String) -> usize {
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
                None if self.bytes[at + 2..].len() < 4
                    && self.bytes[at + 2..].iter().all(u8::is_ascii_hexdigit) =>
                {
                    self.record(RepairKind::Completed);
                    return self.bytes.len();
                }
                None => changed('\\', 1),
            },
            Some(b'x') => match self.hex(at + 2, 2).and_then(char::from_u32) {
                Some(character) => changed(character, 4),
                None => changed('\\', 1),
            },
            Some(b'U') => match self.hex(at + 2, 8).and_then(char::from_u32) {
                Some(character) => changed(character, 10),
                None => changed('\\', 1),
            },
            Some(b'\'' | b'`') => changed(char::from(self.bytes[at + 1]), 2),
            Some(b'\n') => {
                self.record(RepairKind::EscapeChanged);
                return at + 2;
            }
            // The text ends in the middle of an escape.
            None => {
                self.record(RepairKind::Completed);
                return at + 1;
            }
            Some(0xe2) if self.quote_at(at + 1) => {
                self.record(RepairKind::EscapeChanged);
                return at + 1;
            }
            // `\d`, `\(`: the backslash is literal, as in a pattern or a path.
            Some(_) => changed('\\', 1),
        };
        content.push(character);
        if let Some(kind) = repair {
            self.record(kind);
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
        match paired.and_then(|second| char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)))
        {
            Some(character) => Some((character, 12, None)),
            None => Some((char::REPLACEMENT_CHARACTER, 6, Some(RepairKind::CharacterReplaced))),
        }
    }

    fn hex(&self, at: usize, digits: usize) -> Option<u32> {
        let text = self.text.get(at..at + digits)?;
        text.bytes()
            .all(|byte| byte.is_ascii_hexdigit())
            .then(|| u32::from_str_radix(text, 16).ok())
            .flatten()
    }
}

//! Parses RFC 8259 only: the fast path, which decides whether a text needs repair.
//!
//! It also refuses valid JSON that a [`Value`] cannot represent without loss: duplicate keys, integers beyond
//! 64 bits, numbers beyond a double, unpaired surrogates. The tolerant parser handles these and records
//! repairs.

use serde_json::{Map, Number, Value};

use crate::NESTING_MAX;
use crate::memory::{self, OBJECT_BYTES};

/// A value that needed no repair.
pub(crate) struct Parsed {
    pub(crate) value: Value,
    /// The offset after the value.
    pub(crate) end: usize,
    /// The nesting depth of the value.
    pub(crate) depth: usize,
}

/// The offset and reason at which parsing stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadFailure {
    pub(crate) at: usize,
    pub(crate) reason: FailureReason,
}

/// The reason for which parsing stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureReason {
    /// The grammar does not allow this byte.
    Syntax,
    /// The text ends inside the document.
    End,
    /// Nested deeper than [`NESTING_MAX`].
    Depth,
    /// A key occurs twice in one object.
    Duplicate,
    /// A number does not fit into 64 bits or a double.
    Number,
    /// An unpaired surrogate escape.
    Surrogate,
    /// The values need more memory than the budget has.
    Memory,
}

/// Parses one value at `at`; any text may follow it.
pub(crate) fn parse(text: &str, at: usize) -> Result<Parsed, ReadFailure> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at, depth: 0, deepest: 0 };
    let left = memory::left();
    reader.skip_space();
    match reader.value() {
        Ok(value) => Ok(Parsed { value, end: reader.at, depth: reader.deepest }),
        Err(failure) => {
            memory::restore(left);
            Err(failure)
        }
    }
}

/// Parses `text` as exactly one document.
pub(crate) fn parse_whole(text: &str) -> Result<Parsed, ReadFailure> {
    let left = memory::left();
    let parsed = parse(text, 0)?;
    let rest = text.as_bytes().iter().skip(parsed.end).position(|&byte| !is_space(byte));
    match rest {
        None => Ok(parsed),
        Some(offset) => {
            memory::restore(left);
            Err(ReadFailure { at: parsed.end + offset, reason: FailureReason::Syntax })
        }
    }
}

pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Returns the offset of the next quote, backslash or control character. It reads eight bytes at a time.
pub(crate) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    while let Some(chunk) = bytes.get(at..at + 8).and_then(|chunk| <[u8; 8]>::try_from(chunk).ok()) {
        let word = u64::from_le_bytes(chunk);
        // The high bit of each byte is set if the byte matches; a match may also set the byte above it.
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        let quotes = word ^ (ONES * u64::from(b'"'));
        let quotes = quotes.wrapping_sub(ONES) & !quotes;
        let backslashes = word ^ (ONES * u64::from(b'\\'));
        let backslashes = backslashes.wrapping_sub(ONES) & !backslashes;
        let found = (controls | quotes | backslashes) & HIGHS;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let is_special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    bytes
        .get(at..)
        .and_then(|rest| rest.iter().position(is_special))
        .map_or(bytes.len(), |offset| at + offset)
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    depth: usize,
    deepest: usize,
}

impl Reader<'_> {
    fn fail<T>(&self, reason: FailureReason) -> Result<T, ReadFailure> {
        let reason = if reason == FailureReason::Syntax && self.at >= self.bytes.len() {
            FailureReason::End
        } else {
            reason
        };
        Err(ReadFailure { at: self.at, reason })
    }

    fn peek(&self) -> u8 {
        // NUL is never valid JSON, so it can represent the end of the text.
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn skip_space(&mut self) {
        while is_space(self.peek()) {
            self.at += 1;
        }
    }

    /// Accounts for memory that a value needs.
    fn take(&self, bytes: usize) -> Result<(), ReadFailure> {
        if memory::take(bytes) { Ok(()) } else { self.fail(FailureReason::Memory) }
    }

    fn value(&mut self) -> Result<Value, ReadFailure> {
        match self.peek() {
            b'"' => {
                self.at += 1;
                self.string().map(Value::String)
            }
            b'{' => self.object(),
            b'[' => self.array(),
            b'-' | b'0'..=b'9' => self.number().map(Value::Number),
            b't' => self.literal("true", Value::Bool(true)),
            b'f' => self.literal("false", Value::Bool(false)),
            b'n' => self.literal("null", Value::Null),
            _ => self.fail(FailureReason::Syntax),
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, ReadFailure> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        if word.as_bytes().starts_with(rest) {
            self.at = self.bytes.len();
        }
        self.fail(FailureReason::Syntax)
    }

    fn enter(&mut self) -> Result<(), ReadFailure> {
        self.at += 1;
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        if self.depth > NESTING_MAX { self.fail(FailureReason::Depth) } else { Ok(()) }
    }

    fn object(&mut self) -> Result<Value, ReadFailure> {
        self.enter()?;
        self.take(OBJECT_BYTES)?;
        let mut object = Map::new();
        self.skip_space();
        if self.peek() == b'}' {
            self.at += 1;
            self.depth -= 1;
            return Ok(Value::Object(object));
        }
        loop {
            if self.peek() != b'"' {
                return self.fail(FailureReason::Syntax);
            }
            self.at += 1;
            let key = self.string()?;
            if !memory::take_member(object.len(), 0) {
                return self.fail(FailureReason::Memory);
            }
            self.skip_space();
            if self.peek() != b':' {
                return self.fail(FailureReason::Syntax);
            }
            self.at += 1;
            self.skip_space();
            let value = self.value()?;
            if object.insert(key, value).is_some() {
                return self.fail(FailureReason::Duplicate);
            }
            self.skip_space();
            match self.peek() {
                b',' => {
                    self.at += 1;
                    self.skip_space();
                }
                b'}' => {
                    self.at += 1;
                    self.depth -= 1;
                    return Ok(Value::Object(object));
                }
                _ => return self.fail(FailureReason::Syntax),
            }
        }
    }

    fn array(&mut self) -> Result<Value, ReadFailure> {
        self.enter()?;
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == b']' {
            self.at += 1;
            self.depth -= 1;
            return Ok(Value::Array(items));
        }
        loop {
            let item = self.value()?;
            if !memory::push(&mut items, item) {
                return self.fail(FailureReason::Memory);
            }
            self.skip_space();
            match self.peek() {
                b',' => {
                    self.at += 1;
                    self.skip_space();
                }
                b']' => {
                    self.at += 1;
                    self.depth -= 1;
                    return Ok(Value::Array(items));
                }
                _ => return self.fail(FailureReason::Syntax),
            }
        }
    }

    /// Parses a string whose opening quote has been consumed.
    fn string(&mut self) -> Result<String, ReadFailure> {
        let start = self.at;
        self.at = plain_end(self.bytes, start);
        self.take(self.at - start)?;
        if self.peek() == b'"' {
            let content = self.text[start..self.at].to_owned();
            self.at += 1;
            return Ok(content);
        }
        let mut content = String::with_capacity(self.at - start + 32);
        let mut from = start;
        loop {
            content.push_str(&self.text[from..self.at]);
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(content);
                }
                b'\\' => self.escape(&mut content)?,
                // A raw control character, or the end of the text.
                _ => return self.fail(FailureReason::Syntax),
            }
            from = self.at;
            self.at = plain_end(self.bytes, from);
            // Appending may double the capacity.
            self.take(2 * (self.at - from) + 4)?;
        }
    }

    fn escape(&mut self, content: &mut String) -> Result<(), ReadFailure> {
        self.at += 1;
        let character = match self.peek() {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                let character = self.unicode()?;
                content.push(character);
                return Ok(());
            }
            _ => return self.fail(FailureReason::Syntax),
        };
        self.at += 1;
        content.push(character);
        Ok(())
    }

    fn unicode(&mut self) -> Result<char, ReadFailure> {
        let first = self.hex4()?;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        if first >= 0xDC00 || !self.bytes[self.at..].starts_with(b"\\u") {
            return self.fail(FailureReason::Surrogate);
        }
        self.at += 2;
        let second = self.hex4()?;
        if !(0xDC00..0xE000).contains(&second) {
            return self.fail(FailureReason::Surrogate);
        }
        let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        char::from_u32(code).map_or_else(|| self.fail(FailureReason::Surrogate), Ok)
    }

    fn hex4(&mut self) -> Result<u32, ReadFailure> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.and_then(|hex| u32::from_str_radix(hex, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.fail(FailureReason::Syntax),
        }
    }

    fn number(&mut self) -> Result<Number, ReadFailure> {
        let start = self.at;
        if self.peek() == b'-' {
            self.at += 1;
        }
        match self.peek() {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return self.fail(FailureReason::Syntax),
        }
        let mut is_integer = true;
        if self.peek() == b'.' {
            is_integer = false;
            self.at += 1;
            if !self.peek().is_ascii_digit() {
                return self.fail(FailureReason::Syntax);
            }
            self.digits();
        }
        if matches!(self.peek(), b'e' | b'E') {
            is_integer = false;
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            if !self.peek().is_ascii_digit() {
                return self.fail(FailureReason::Syntax);
            }
            self.digits();
        }
        // `01`, `1x` and `1_000` are left to the tolerant parser.
        if self.peek().is_ascii_alphanumeric() || self.peek() == b'_' {
            return self.fail(FailureReason::Syntax);
        }
        exact_number(&self.text[start..self.at], is_integer)
            .map_or_else(|| self.fail(FailureReason::Number), Ok)
    }

    fn digits(&mut self) {
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
    }
}

/// Returns a number that JSON represents exactly: integers within 64 bits, others as a finite double.
pub(crate) fn exact_number(text: &str, is_integer: bool) -> Option<Number> {
    if is_integer && text != "-0" {
        return match text.parse::<i64>() {
            Ok(number) => Some(number.into()),
            Err(_) => text.parse::<u64>().ok().map(Number::from),
        };
    }
    let float = text.parse::<f64>().ok()?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let underflows = float == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if underflows { None } else { Number::from_f64(float) }
}

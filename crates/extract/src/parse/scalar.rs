//! Parses values without quotes: numbers, literals of several languages, words, calls, and text that is kept
//! unchanged.

use serde_json::{Number, Value};

use super::{Failure, Frame, LastToken, Parser, Role};
use crate::repair::RepairKind;
use crate::strict::exact_number;

/// Literals of several languages, and their JSON values.
const LITERALS: &[(&str, Value)] = &[
    ("true", Value::Bool(true)),
    ("false", Value::Bool(false)),
    ("null", Value::Null),
    ("True", Value::Bool(true)),
    ("False", Value::Bool(false)),
    ("None", Value::Null),
    ("TRUE", Value::Bool(true)),
    ("FALSE", Value::Bool(false)),
    ("NULL", Value::Null),
    ("Null", Value::Null),
    ("undefined", Value::Null),
    ("nil", Value::Null),
];

const SPECIAL_NUMBERS: [&str; 7] = ["NaN", "nan", "Infinity", "-Infinity", "+Infinity", "inf", "-inf"];

impl Parser<'_> {
    /// Parses a value without quotes and brackets.
    pub(super) fn scalar(&mut self, role: Role) -> Result<Option<Value>, Failure> {
        let start = self.at;
        let token_end = self.token_end(start);
        let token = &self.text[start..token_end];
        if token.is_empty() {
            // `/pattern/` is a literal of another language; other text without a token is not a value.
            let is_pattern =
                self.byte(start) == Some(b'/') && self.text.len() > start + 2 && self.text.ends_with('/');
            return Ok((role != Role::Root || is_pattern).then(|| self.keep_text(start, role)));
        }
        if token.starts_with("...") {
            return Ok(None);
        }
        // `1,299` in an object: a comma without a member after it does not end the value.
        let (comma, _) = self.after_space(token_end);
        let goes_on =
            role == Role::Member && self.byte(comma) == Some(b',') && !self.member_follows(comma + 1);
        let ends_here = self.word_may_end(token_end) && !goes_on;
        if ends_here {
            let is_word = token.starts_with(|first: char| first.is_ascii_alphabetic());
            if is_word && let Some((_, value)) = LITERALS.iter().find(|(word, _)| *word == token) {
                if !matches!(token, "true" | "false" | "null") {
                    self.record_text(RepairKind::LiteralChanged, start, token_end, value.clone());
                }
                self.at = token_end;
                self.last = LastToken::Complete;
                self.evidence.literals += 1;
                return Ok(Some(value.clone()));
            }
            if let Some(value) = self.number(start, token_end).or_else(|| self.cut_exponent(start, token_end))
            {
                return Ok(Some(value));
            }
            if SPECIAL_NUMBERS.contains(&token) {
                let value = Value::String(token.to_owned());
                self.record_text(RepairKind::SpecialNumber, start, token_end, value.clone());
                self.at = token_end;
                self.last = LastToken::Complete;
                self.evidence.literals += 1;
                return Ok(Some(value));
            }
        }
        if token_end == self.bytes.len()
            && let Some(value) = self.cut_token(start, token_end)
        {
            return Ok(Some(value));
        }
        if let Some(value) = self.call(start, role)? {
            return Ok(Some(value));
        }
        if let Some(quote) = self.prefixed_quote(token_end, token) {
            self.at = token_end;
            return self.quoted_value(quote, role).map(Some);
        }
        if role == Role::Root {
            return Ok(None);
        }
        Ok(Some(self.keep_text(start, role)))
    }

    /// Returns the end of a run of characters that cannot be punctuation.
    fn token_end(&self, start: usize) -> usize {
        let rest = &self.bytes[start..];
        let is_part = |byte: u8| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'_' | b'$' | b'.' | b'-' | b'+' | b'%')
                || byte >= 0x80
        };
        start + rest.iter().take_while(|&&byte| is_part(byte)).count()
    }

    /// Returns whether the text after a word that ends at `at` may follow a value.
    fn word_may_end(&self, at: usize) -> bool {
        let (next, newline) = self.after_space(at);
        match self.byte(next) {
            None | Some(b',' | b'}' | b']' | b')' | b'`' | b'<' | b';') => true,
            Some(b'/') if self.byte(next + 1) == Some(b'*') => true,
            Some(b'/' | b'#') => self.comment_end(next).is_some() && (next > at || newline),
            Some(_) if newline => true,
            Some(_) => {
                next > at
                    && (self.quote_at(next)
                        || self.key_at(next)
                        || matches!(self.byte(next), Some(b'{' | b'['))
                        || self.frames.last().is_some_and(|frame| *frame != Frame::Object)
                            && self.byte(next).is_some_and(|byte| byte.is_ascii_digit()))
            }
        }
    }

    /// Returns whether the value that was just parsed may end here, or is only the start of other text.
    pub(super) fn value_may_end(&self) -> bool {
        let (next, newline) = self.after_space(self.at);
        match self.byte(next) {
            None
            | Some(b',' | b'}' | b']' | b')' | b':' | b'`' | b'<' | b'{' | b'[' | b'(' | b';' | b'.') => true,
            Some(b'/' | b'#') => self.comment_end(next).is_some(),
            Some(_) => {
                newline || self.quote_at(next) || self.key_at(next) || self.word_may_end(self.token_end(next))
            }
        }
    }

    /// Parses the token as a number, in JSON's notation or an equivalent one.
    fn number(&mut self, start: usize, end: usize) -> Option<Value> {
        let token = &self.text[start..end];
        let (value, kind) = read_number(token)?;
        if let Some(kind) = kind {
            self.record_text(kind, start, end, value.clone());
        }
        self.at = end;
        self.last = LastToken::Number;
        self.evidence.literals += 1;
        Some(value)
    }

    /// Parses a number without its exponent: `2e` and `2.5e-`.
    fn cut_exponent(&mut self, start: usize, end: usize) -> Option<Value> {
        let token = &self.text[start..end];
        let shortened = token.trim_end_matches(['+', '-']).strip_suffix(['e', 'E'])?;
        let (value, _) = read_number(shortened)?;
        self.record_text(RepairKind::Completed, start, end, value.clone());
        self.at = end;
        self.last = LastToken::Number;
        self.evidence.literals += 1;
        Some(value)
    }

    /// Parses a literal or number that is cut off at the end of the text.
    fn cut_token(&mut self, start: usize, end: usize) -> Option<Value> {
        let token = &self.text[start..end];
        // Outside a document, `No` and `T` are ordinary words.
        let foreign: &[&str] = if self.frames.is_empty() { &[] } else { &["True", "False", "None"] };
        let literal = ["true", "false", "null"].iter().chain(foreign).find(|word| word.starts_with(token));
        let value = match literal {
            Some(word) => LITERALS.iter().find(|(known, _)| known == word)?.1.clone(),
            None if token == "-" => {
                if self.frames.is_empty() {
                    return None;
                }
                Value::from(0)
            }
            None => {
                let shortened = token.trim_end_matches(['e', 'E', '+', '-', '.']);
                read_number(shortened)
                    .filter(|_| token.starts_with(|first: char| first.is_ascii_digit() || first == '-'))?
                    .0
            }
        };
        self.record_text(RepairKind::Completed, start, end, value.clone());
        self.at = end;
        self.last = LastToken::Open;
        self.evidence.is_cut = true;
        self.evidence.literals += 1;
        Some(value)
    }

    /// Replaces a call with one argument by its argument: `ObjectId("507f")`, `callback({…});`. Any other
    /// call is code, so the text is not JSON.
    fn call(&mut self, start: usize, role: Role) -> Result<Option<Value>, Failure> {
        // `new Date("2020")`
        let name = if self.starts_with("new ") { start + 4 } else { start };
        let end = self.token_end(name);
        // `callback ({…})` at the start of a text; elsewhere, a space precedes a remark in parentheses.
        let open = if role == Role::Root { self.after_space(end).0 } else { end };
        if self.byte(open) != Some(b'(')
            || !self.text[name..open].starts_with(|first: char| first.is_alphabetic() || first == '_')
        {
            return Ok(None);
        }
        let in_object = self.frames.contains(&Frame::Object);
        let (inside, _) = self.after_space(open + 1);
        let is_single = self.quote_at(inside)
            || self.literal_at(inside)
            || matches!(self.byte(inside), Some(b'{' | b'['));
        if is_single && (in_object || role == Role::Root) {
            let before = (self.repairs.clone(), self.at);
            self.at = inside;
            self.frames.push(super::Frame::Tuple);
            let argument = self.value(Role::Item);
            self.frames.pop();
            if let Some(value) = argument? {
                self.skip();
                if self.peek() == Some(b')') && (in_object || self.is_callback(start, open, &value)) {
                    self.at += 1;
                    self.last = LastToken::Complete;
                    self.record_text(RepairKind::CallRemoved, start, open, Value::Null);
                    return Ok(Some(value));
                }
            }
            (self.repairs, self.at) = before;
        }
        if in_object { Ok(Some(self.keep_text(start, role))) } else { Err(Failure::Code) }
    }

    /// Returns whether a call that ends here passes a document to a callback: `callback({…})`, `callback(5);`.
    /// Lists without objects, and without the semicolon all other values, are arguments of code: `f([1, 2]);`,
    /// `f(5)`.
    fn is_callback(&self, start: usize, open: usize, argument: &Value) -> bool {
        let is_statement = self.byte(self.after_space(self.at + 1).0) == Some(b';');
        let is_plain_list =
            argument.as_array().is_some_and(|items| !items.is_empty() && !items.iter().any(Value::is_object));
        argument.is_object() || (is_statement && !is_plain_list && !self.bytes[start..open].contains(&b'.'))
    }

    /// Parses the prefix of a string of another language: `r"…"`, `b'…'`, `u"…"`.
    fn prefixed_quote(&mut self, at: usize, token: &str) -> Option<super::string::Quote> {
        if token.len() > 2 || !token.bytes().all(|byte| b"rRbBuUfF".contains(&byte)) || !self.quote_at(at) {
            return None;
        }
        if matches!(self.byte(at + 1), None | Some(b',' | b'\n' | b'\r' | b'}' | b']')) {
            // `b",`: the closing quote of a word without an opening quote.
            return None;
        }
        let start = self.at;
        self.at = at;
        let quote = self.quote_here();
        self.at = start;
        self.is_raw = token.bytes().any(|byte| byte.eq_ignore_ascii_case(&b'r'));
        let is_plain = token.bytes().all(|byte| b"rRuU".contains(&byte));
        self.record(if is_plain { RepairKind::LiteralChanged } else { RepairKind::ValueQuoted });
        quote
    }

    /// Keeps the text from `start` to the next separator as a string, so that nothing is lost.
    pub(super) fn keep_text(&mut self, start: usize, role: Role) -> Value {
        let end = self.text_end(start, role);
        let raw = self.text[start..end].trim();
        // `[a", "b"]`: the opening quote is missing.
        let is_word = !raw.contains(['"', '(', '{', '[']);
        let unopened = |mark: char| raw.ends_with(mark) && raw.matches(mark).count() == 1;
        let content = if unopened('"') { raw.trim_end_matches('"') } else { raw };
        let value = Value::String(content.to_owned());
        let kind =
            if is_word || content.len() < raw.len() { RepairKind::ValueQuoted } else { RepairKind::TextKept };
        self.record_text(kind, start, end, value.clone());
        if raw.starts_with(|first: char| first.is_ascii_digit()) && role == Role::Member {
            self.evidence.literals += 1;
        } else {
            self.evidence.unquoted += 1;
        }
        self.at = end;
        self.last = if end == self.bytes.len() { LastToken::Open } else { LastToken::Complete };
        value
    }

    /// Returns the end of text without quotes: before a comma that a member or item follows, before the
    /// container's closing bracket, or at the end of a line in an array.
    fn text_end(&self, start: usize, role: Role) -> usize {
        let mut depth = 0_usize;
        let mut at = start;
        while let Some(byte) = self.byte(at) {
            match byte {
                b',' if depth == 0 => {
                    let ends = match role {
                        Role::Member => self.member_follows(at + 1),
                        _ => true,
                    };
                    if ends {
                        return at;
                    }
                }
                b'\n' if depth == 0 => {
                    let (next, _) = self.after_space(at);
                    let closes = matches!(self.byte(next), Some(b'}' | b']' | b')'))
                        || self.bytes[next..].starts_with(b"```");
                    if role == Role::Item || closes || self.key_at(next) {
                        return at;
                    }
                }
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' if depth > 0 => depth -= 1,
                b')' | b']' | b'}' if self.is_open(byte) => return at,
                // `value "key": …`: a comma is missing.
                b'"' if depth == 0 && at > start && role == Role::Member && self.key_at(at) => return at,
                b'/' if depth == 0
                    && at > start
                    && self.byte(at - 1) == Some(b' ')
                    && self.comment_end(at).is_some() =>
                {
                    return at;
                }
                _ => {}
            }
            at += 1;
        }
        self.bytes.len()
    }
}

/// Parses a number in any known notation. Returns its value and the required repair.
fn read_number(token: &str) -> Option<(Value, Option<RepairKind>)> {
    let is_plain = token.len() < 19 && token.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain && (token.len() == 1 || !token.starts_with('0')) {
        return token.parse::<u64>().ok().map(|number| (Value::from(number), None));
    }
    let unsigned = token.trim_start_matches(['-', '+']);
    if unsigned.len() + 1 < token.len()
        || !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
    {
        return None;
    }
    let negative = token.starts_with('-');
    for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = unsigned.strip_prefix(prefix) {
            let magnitude = i64::from_str_radix(&digits.replace('_', ""), radix).ok()?;
            let value = Value::from(if negative { -magnitude } else { magnitude });
            return Some((value, Some(RepairKind::RadixChanged)));
        }
    }
    let is_digit_group = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    let whole = unsigned.bytes().take_while(|&byte| is_digit_group(byte)).count();
    let leading_zero = whole > 1 && unsigned.starts_with('0');
    if leading_zero
        || unsigned.starts_with('_')
        || unsigned.contains("__")
        || unsigned[..whole].ends_with('_')
    {
        return None;
    }
    let mut canonical = token.trim_start_matches('+').replace('_', "");
    if canonical.ends_with('.') && canonical.len() > 1 {
        canonical.push('0');
    }
    if let Some(position) = canonical.find('.')
        && !canonical[..position].ends_with(|last: char| last.is_ascii_digit())
    {
        canonical.insert(position, '0');
    }
    let is_integer = canonical.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_number = canonical.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if !is_number {
        return None;
    }
    let float: f64 = canonical.parse().ok()?;
    match exact_number(&canonical, is_integer) {
        Some(number) => {
            Some((Value::Number(number), (canonical != token).then_some(RepairKind::NumberChanged)))
        }
        None => Number::from_f64(float)
            .map(|number| (Value::Number(number), Some(RepairKind::NumberRounded)))
            .or_else(|| Some((Value::String(token.to_owned()), Some(RepairKind::SpecialNumber)))),
    }
}

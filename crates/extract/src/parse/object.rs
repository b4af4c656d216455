//! Parses objects.

use serde_json::{Map, Value};
use slipform_schema::Segment;

use super::{Failure, Frame, LastToken, Parser, Role};
use crate::memory;
use crate::repair::RepairKind;

/// The most bytes between members that are searched for the next key.
const SKIPPED_BYTES_MAX: usize = 200;

/// The longest key without quotes, in bytes.
const BARE_KEY_MAX: usize = 64;

impl Parser<'_> {
    /// Parses an object at its opening brace.
    pub(super) fn object(&mut self) -> Result<Value, Failure> {
        self.enter(Frame::Object)?;
        self.evidence.objects += 1;
        let mut object = Map::new();
        let mut separated = true;
        loop {
            self.skip();
            if self.at_end() {
                self.close_at_end();
                return Ok(Value::Object(object));
            }
            match self.peek() {
                Some(b',') => self.comma(&mut separated),
                Some(b';') => {
                    self.record(RepairKind::CommaAdded);
                    self.comma(&mut separated);
                }
                Some(b'}') => {
                    if separated && !object.is_empty() {
                        self.record(RepairKind::CommaRemoved);
                    }
                    if self.is_premature() {
                        self.record(RepairKind::BracketChanged);
                        self.at += 1;
                        continue;
                    }
                    self.at += 1;
                    self.leave();
                    return Ok(Value::Object(object));
                }
                Some(byte @ (b']' | b')')) => {
                    if self.mismatched_closer(byte, b'}') {
                        return Ok(Value::Object(object));
                    }
                }
                // `[{"a": 1, {"a": 2}]`: the next item begins before this one is closed.
                Some(b'{') if separated && !object.is_empty() && self.is_in_list() => {
                    self.record(RepairKind::BracketChanged);
                    self.leave();
                    return Ok(Value::Object(object));
                }
                Some(b':')
                    if object.is_empty() && self.byte(self.after_space(self.at + 1).0) != Some(b'}') =>
                {
                    return Err(Failure::NotJson);
                }
                Some(b':') => {
                    self.record_text(RepairKind::TextDropped, self.at, self.at + 1, Value::Null);
                    self.at += 1;
                }
                _ if self.ellipsis() => {}
                _ if object.is_empty() && self.is_set() => return self.set(),
                Some(b'[') if self.extend_last(&mut object)? => separated = false,
                _ => {
                    if !self.next_member(&mut object, &mut separated)? {
                        // The following text is not part of the document.
                        self.close_at_end();
                        return Ok(Value::Object(object));
                    }
                }
            }
        }
    }

    /// Parses the next member into the object, or skips text that is not one. Returns `false` if the document
    /// has ended.
    fn next_member(
        &mut self,
        object: &mut Map<String, Value>,
        separated: &mut bool,
    ) -> Result<bool, Failure> {
        let before = self.at;
        match self.member()? {
            Some((key, value)) => {
                if !*separated {
                    self.record(RepairKind::CommaAdded);
                }
                self.insert(object, key, value)?;
                *separated = false;
            }
            None if self.at_end() => {}
            None if self.at == before => return self.skip_to_member(object),
            None => *separated = false,
        }
        Ok(true)
    }

    /// Appends an array without a key to the array before it: `"key": ["a"], ["b"], …`.
    fn extend_last(&mut self, object: &mut Map<String, Value>) -> Result<bool, Failure> {
        let Some(last) = object.keys().next_back().cloned().filter(|key| object[key].is_array()) else {
            return Ok(false);
        };
        self.path.push(Segment::Key(last.clone()));
        let more = self.array(Frame::Array)?;
        self.record(RepairKind::BracketChanged);
        self.path.pop();
        if let (Some(Value::Array(items)), Value::Array(more)) = (object.get_mut(&last), more) {
            items.extend(more);
        }
        Ok(true)
    }

    /// Returns whether the outermost object continues after its brace: `{"a": 1}, "b": 2}`.
    fn is_premature(&self) -> bool {
        if self.frames.len() != 1 {
            return false;
        }
        let (comma, _) = self.after_space(self.at + 1);
        if self.byte(comma) != Some(b',') {
            return false;
        }
        let key = self.after_comment(comma + 1);
        self.quote_at(key) && (self.key_at(key) || self.pair_at(key))
    }

    fn insert(&mut self, object: &mut Map<String, Value>, key: String, value: Value) -> Result<(), Failure> {
        self.evidence.pairs += 1;
        if !memory::take_member(object.len(), 2 * key.len()) {
            return Err(Failure::Memory);
        }
        let Some(previous) = object.get(&key) else {
            object.insert(key, value);
            return Ok(());
        };
        self.path.push(Segment::Key(key.clone()));
        if *previous == value {
            self.record(RepairKind::RepeatRemoved);
        } else {
            let from = previous.clone();
            self.repair(RepairKind::DuplicateRemoved, from, value.clone());
        }
        self.path.pop();
        object.insert(key, value);
        Ok(())
    }

    /// Parses one key and its value. Returns `None` if there is no key here, or its value is cut off.
    pub(super) fn member(&mut self) -> Result<Option<(String, Value)>, Failure> {
        let Some(key) = self.key()? else { return Ok(None) };
        self.last = LastToken::Open;
        self.skip();
        if self.at_end() {
            return Ok(None);
        }
        match self.peek() {
            Some(b':') => {
                self.at += 1;
                // `"key":: value` and `"key" := value`
                if matches!(self.peek(), Some(b':' | b'=')) {
                    self.at += 1;
                    self.record(RepairKind::ColonAdded);
                }
            }
            Some(b'=') => {
                self.at += if self.starts_with("=>") { 2 } else { 1 };
                self.record(RepairKind::ColonAdded);
            }
            Some(b',' | b'}' | b']' | b')') => {
                self.path.push(Segment::Key(key.clone()));
                self.record(RepairKind::NullAdded);
                self.path.pop();
                return Ok(Some((key, Value::Null)));
            }
            _ => self.record(RepairKind::ColonAdded),
        }
        self.path.push(Segment::Key(key));
        let value = self.value(Role::Member);
        let missing = matches!(value, Ok(None)) && !self.at_end();
        if missing {
            self.record(RepairKind::NullAdded);
        }
        let Some(Segment::Key(key)) = self.path.pop() else { return Ok(None) };
        match value? {
            Some(value) => Ok(Some((key, value))),
            None if missing => {
                // `"a": ...,` and `"a": :`: skip text that cannot be a value.
                if self.starts_with("...") {
                    self.at += 3;
                } else if self.peek() == Some(b':') {
                    self.at += 1;
                }
                Ok(Some((key, Value::Null)))
            }
            None => Ok(None),
        }
    }

    fn key(&mut self) -> Result<Option<String>, Failure> {
        if let Some(quote) = self.quote_here() {
            let key = self.string(quote, Role::Key)?;
            return Ok((!self.evidence.is_cut).then_some(key));
        }
        let start = self.at;
        let window_end = self.bytes.len().min(start + BARE_KEY_MAX);
        let window = &self.bytes[start..window_end];
        let stops = |byte: u8| {
            matches!(byte, b':' | b'=' | b',' | b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'\n' | b'\'')
        };
        let Some(length) = window.iter().position(|&byte| stops(byte) || byte == b'"') else {
            return Ok(None);
        };
        let end = start + length;
        let is_separator = |at: usize| self.byte(at) == Some(b':') || self.bytes[at..].starts_with(b"=>");
        // `key": …`, without the opening quote; `key "value"`, without the colon.
        let unopened = self.byte(end) == Some(b'"') && is_separator(self.after_space(end + 1).0);
        let word = self.text[start..end].trim_end();
        let is_word = !word.is_empty() && !word.contains(char::is_whitespace);
        let no_colon = is_word && self.quote_at(end) && end > start + word.len() && !self.key_at(end);
        let typographic = is_word && self.text[start..end].contains('“');
        if !is_separator(end) && !unopened && !no_colon || typographic {
            return Ok(self.key_before_quote(start));
        }
        if word.is_empty() {
            return Ok(None);
        }
        let key = word.to_owned();
        self.key_quoted(&key, start, end);
        self.at = if unopened { end + 1 } else { end };
        Ok(Some(key))
    }

    fn key_quoted(&mut self, key: &str, start: usize, end: usize) {
        self.path.push(Segment::Key(key.to_owned()));
        self.record_text(RepairKind::KeyQuoted, start, end, Value::from(key));
        self.path.pop();
    }

    /// Parses a word before a typographic quote as a key: `{a “b”}`.
    fn key_before_quote(&mut self, start: usize) -> Option<String> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = self.bytes[start..].iter().take(BARE_KEY_MAX).take_while(|byte| is_part(byte)).count();
        let (next, newline) = self.after_space(start + length);
        if length == 0 || newline || self.byte(next) != Some(0xe2) || !self.quote_at(next) {
            return None;
        }
        let key = self.text[start..start + length].to_owned();
        self.key_quoted(&key, start, start + length);
        self.at = start + length;
        Some(key)
    }

    /// Returns whether the braces contain values without keys: `{"a", "b"}` and `{5}`.
    fn is_set(&self) -> bool {
        let end = match self.byte(self.at) {
            Some(mark @ (b'"' | b'\'')) => {
                let window = &self.bytes[self.at + 1..self.bytes.len().min(self.at + 400)];
                let Some(offset) = window.iter().position(|&byte| byte == mark) else { return false };
                self.at + 1 + offset + 1
            }
            Some(b'0'..=b'9') => {
                self.at + self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count()
            }
            _ => return false,
        };
        let (next, _) = self.after_space(end);
        match self.byte(next) {
            Some(b',') => {
                let (second, _) = self.after_space(next + 1);
                (self.quote_at(second) || self.byte(second).is_some_and(|byte| byte.is_ascii_digit()))
                    && !self.key_at(second)
            }
            Some(b'}') => true,
            _ => false,
        }
    }

    fn set(&mut self) -> Result<Value, Failure> {
        self.record(RepairKind::SetChanged);
        if let Some(frame) = self.frames.last_mut() {
            // The items end at a brace.
            *frame = Frame::Object;
        }
        self.items(b'}').map(Value::Array)
    }

    /// Skips text that is neither key nor value if a key follows soon. Returns `false` if the document has
    /// ended.
    fn skip_to_member(&mut self, object: &Map<String, Value>) -> Result<bool, Failure> {
        let start = self.at;
        let rest = &self.bytes[start..self.bytes.len().min(start + BARE_KEY_MAX)];
        if start + rest.len() == self.bytes.len()
            && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        {
            // The text ends inside a key without quotes.
            self.at = self.bytes.len();
            return Ok(false);
        }
        // A document does not begin with invalid text, so reject text that is not JSON early.
        if object.is_empty() && !self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Failure::NotJson);
        }
        let window = &self.bytes[start..self.bytes.len().min(start + SKIPPED_BYTES_MAX)];
        let line = window.iter().position(|&byte| byte == b'\n').unwrap_or(window.len());
        let found = (0..line).find(|&offset| {
            let at = start + offset;
            (self.quote_at(at) && self.key_at(at))
                || (window[offset] == b'}' && offset > 0 && !object.is_empty())
        });
        match found {
            Some(0) | None if object.is_empty() => Err(Failure::NotJson),
            Some(offset) if offset > 0 => {
                self.record_text(RepairKind::TextDropped, start, start + offset, Value::Null);
                self.at = start + offset;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

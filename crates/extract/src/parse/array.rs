//! Parses arrays and tuples.

use serde_json::{Map, Value};
use slipform_schema::Segment;

use super::{Failure, Frame, Parser, Role};
use crate::memory::{self, OBJECT_BYTES};
use crate::repair::RepairKind;

/// The longest rest of a text whose brackets are counted, in bytes.
const REST_MAX: usize = 4096;

impl Parser<'_> {
    /// Parses an array or a tuple at its opening bracket.
    pub(super) fn array(&mut self, frame: Frame) -> Result<Value, Failure> {
        let start = self.at;
        self.enter(frame)?;
        self.evidence.lists += 1;
        let items = self.items(frame.closer())?;
        if frame == Frame::Tuple {
            return Ok(self.tuple(items, start));
        }
        Ok(Value::Array(items))
    }

    /// Returns the value of a tuple: `(1, 2)` is an array; `("x")` is a value in parentheses.
    fn tuple(&mut self, mut items: Vec<Value>, start: usize) -> Value {
        self.record(RepairKind::TupleChanged);
        let ends_with_comma = self.bytes[start..self.at.saturating_sub(1)]
            .iter()
            .rev()
            .find(|byte| !byte.is_ascii_whitespace())
            == Some(&b',');
        if items.len() == 1 && !ends_with_comma {
            return items.remove(0);
        }
        Value::Array(items)
    }

    /// Parses items up to and including the closing bracket.
    pub(super) fn items(&mut self, closer: u8) -> Result<Vec<Value>, Failure> {
        let mut items = Vec::new();
        let mut separated = true;
        let mut last_start = self.at;
        loop {
            self.skip();
            if self.at_end() {
                self.close_at_end();
                return Ok(items);
            }
            match self.peek() {
                Some(b',') => self.comma(&mut separated),
                Some(byte) if byte == closer => {
                    if separated && !items.is_empty() {
                        self.record(RepairKind::CommaRemoved);
                    }
                    self.at += 1;
                    self.leave();
                    return Ok(items);
                }
                Some(byte @ (b'}' | b']' | b')')) => {
                    if self.mismatched_closer(byte, closer) {
                        return Ok(items);
                    }
                }
                Some(b':') if self.is_member_of_outer(&items) => {
                    // `{"a": ["x", "b": 3}`: the array was never closed, and this is the next key.
                    items.pop();
                    self.at = last_start;
                    self.record(RepairKind::BracketChanged);
                    self.leave();
                    return Ok(items);
                }
                Some(b':') => {
                    self.item_is_member(&mut items)?;
                    separated = false;
                }
                _ if self.ellipsis() => separated = true,
                _ => {
                    if !separated {
                        self.record(RepairKind::CommaAdded);
                    }
                    last_start = self.at;
                    separated = !self.item(&mut items)?;
                }
            }
        }
    }

    /// Parses one item. Returns `false` if none starts here, and skips the text.
    fn item(&mut self, items: &mut Vec<Value>) -> Result<bool, Failure> {
        self.path.push(Segment::Index(items.len()));
        let item = self.value(Role::Item);
        self.path.pop();
        match item? {
            // Drop an empty item at the end of a truncated text.
            Some(Value::String(text)) if text.is_empty() && self.evidence.is_cut => Ok(false),
            Some(item) => {
                if memory::push(items, item) {
                    Ok(true)
                } else {
                    Err(Failure::Memory)
                }
            }
            None if self.at_end() => Ok(false),
            None => {
                let step = self.text[self.at..].chars().next().map_or(1, char::len_utf8);
                self.record_text(RepairKind::TextDropped, self.at, self.at + step, Value::Null);
                self.at += step;
                Ok(false)
            }
        }
    }

    /// Skips a comma, and records a repair if it follows another comma.
    pub(super) fn comma(&mut self, separated: &mut bool) {
        if *separated {
            self.record(RepairKind::CommaRemoved);
        }
        *separated = true;
        self.at += 1;
        self.last = super::LastToken::Open;
    }

    /// Skips an ellipsis if there is one.
    pub(super) fn ellipsis(&mut self) -> bool {
        let found = self.starts_with("...") || self.starts_with("…");
        if found {
            self.at += 3;
            self.record(RepairKind::EllipsisRemoved);
        }
        found
    }

    /// Returns whether the last of several items is a key of the enclosing object.
    fn is_member_of_outer(&self, items: &[Value]) -> bool {
        items.len() > 1
            && items.last().is_some_and(Value::is_string)
            && matches!(self.frames.as_slice(), [.., Frame::Object, _])
    }

    /// Handles a closing bracket of another kind. Returns `true` if it ends the container.
    pub(super) fn mismatched_closer(&mut self, byte: u8, wanted: u8) -> bool {
        let (next, _) = self.after_space(self.at + 1);
        if !self.is_open(byte) {
            // An extra bracket, or the wrong one at the end.
            let closes = !matches!(self.byte(next), Some(b',')) && self.byte(next) != Some(wanted);
            self.record(RepairKind::BracketChanged);
            self.at += 1;
            if closes {
                self.leave();
            }
            return closes;
        }
        if self.is_wrong_kind(byte, next) {
            self.record(RepairKind::BracketChanged);
            self.at += 1;
            self.leave();
            return true;
        }
        let is_complete = self.last == super::LastToken::Complete;
        self.record(if is_complete { RepairKind::BracketAdded } else { RepairKind::BracketChanged });
        self.leave();
        true
    }

    /// Returns whether a bracket of the outer container was meant for this one, because the outer container
    /// continues: `["a", "b"}, "key": …` and `("a", "b"], ("c", …`.
    fn is_wrong_kind(&self, byte: u8, next: usize) -> bool {
        let [.., outer, _] = self.frames.as_slice() else { return false };
        if outer.closer() != byte || self.byte(next) != Some(b',') {
            return false;
        }
        let follower = self.after_comment(next + 1);
        let is_member = self.key_at(follower);
        let beyond = self.frames.len().checked_sub(3).map(|index| self.frames[index]);
        match outer {
            Frame::Object => is_member && (beyond != Some(Frame::Object) || self.closers_match_open()),
            // After an array in an object, only a key may follow.
            _ => {
                beyond == Some(Frame::Object)
                    && !is_member
                    && matches!(self.byte(follower), Some(b'(' | b'[' | b'{'))
            }
        }
    }

    /// Returns whether the rest of the text closes all containers except the innermost, which ends here.
    fn closers_match_open(&self) -> bool {
        let rest = &self.bytes[self.at + 1..];
        if rest.len() > REST_MAX {
            return false;
        }
        let count = |marks: [u8; 2]| rest.iter().filter(|byte| marks.contains(byte)).count();
        count([b'}', b']']) == count([b'{', b'[']) + self.frames.len() - 1
    }

    /// Converts `["key": "value"]` to an array with an object: the last item is a key.
    fn item_is_member(&mut self, items: &mut Vec<Value>) -> Result<(), Failure> {
        self.at += 1;
        let Some(Value::String(key)) = items.pop() else { return Err(Failure::NotJson) };
        self.path.push(Segment::Index(items.len()));
        self.path.push(Segment::Key(key.clone()));
        let in_object = self.frames.contains(&Frame::Object);
        self.frames.push(Frame::Object);
        let value = self.value(Role::Member);
        self.frames.pop();
        self.path.pop();
        self.record(RepairKind::BracketChanged);
        self.path.pop();
        let mut object = Map::new();
        if !memory::take(OBJECT_BYTES) || !memory::take_member(0, key.len()) {
            return Err(Failure::Memory);
        }
        object.insert(key, value?.unwrap_or(Value::Null));
        // Further members of the same object.
        loop {
            self.skip();
            let (next, _) = self.after_space(self.at + 1);
            if self.peek() != Some(b',') || !self.key_at(next) {
                break;
            }
            self.at = next;
            let Some((key, value)) = self.member()? else { break };
            if !memory::take_member(object.len(), 2 * key.len()) {
                return Err(Failure::Memory);
            }
            object.insert(key, value);
        }
        if self.peek() == Some(b'}') && !in_object {
            self.at += 1;
        }
        self.evidence.pairs += 1;
        // The list has room where the key was.
        items.push(Value::Object(object));
        Ok(())
    }
}

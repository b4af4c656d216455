//! Tells program code in a text from documents.

use serde_json::Value;

use super::{Scanner, is_word};

/// The most bytes searched backwards for an open parenthesis.
const CALL_WITHIN: usize = 1024;

/// The most bytes between two bracketed arguments of one call.
const ARGUMENT_GAP_MAX: usize = 200;

impl Scanner<'_> {
    /// Returns whether the bracket is a subscript, an argument, part of a string in program code, or the
    /// value of a key without an open object.
    pub(super) fn is_in_code(&self, at: usize) -> bool {
        let Some(previous) = at.checked_sub(1).map(|before| self.bytes[before]) else { return false };
        let before = self.bytes[..at].trim_ascii_end();
        match before.split_last() {
            Some((b'=', _)) => return self.is_in_call(at),
            Some((b':', key)) if matches!(key.trim_ascii_end().last(), Some(b'"' | b'\'')) => return true,
            _ => {}
        }
        if self.bytes[at] == b'{' {
            return matches!(previous, b'$' | b'%');
        }
        let called = previous == b'(' && at >= 2 && is_word(self.bytes[at - 2]);
        called
            || is_word(previous)
            || matches!(previous, b'$' | b'%' | b'\\' | b')' | b']' | b'\'' | b'"' | b'.')
    }

    /// Returns whether an open parenthesis after a name precedes `at`: the arguments of a call.
    fn is_in_call(&self, at: usize) -> bool {
        let mut closed = 0_usize;
        for (index, byte) in self.bytes[..at].iter().enumerate().rev().take(CALL_WITHIN) {
            match byte {
                b')' => closed += 1,
                b'(' if closed > 0 => closed -= 1,
                b'(' => return index > 0 && is_word(self.bytes[index - 1]),
                _ => {}
            }
        }
        false
    }

    /// Returns whether the group is an argument of a call: directly after its parenthesis, or after another
    /// argument. The only argument of a call may be a document if it is an object: `callback({…})`. With a
    /// schema, the schema decides.
    pub(super) fn is_argument(&self, at: usize, end: usize) -> bool {
        if self.has_schema {
            return false;
        }
        if self.argument_end > 0 {
            let gap = &self.bytes[self.argument_end.min(at)..at];
            if gap.len() < ARGUMENT_GAP_MAX && gap.starts_with(b",") && !gap.contains(&b')') {
                return true;
            }
        }
        let before = self.bytes[at.saturating_sub(64)..at].trim_ascii_end();
        let is_first = matches!(before, [.., name, b'('] if is_word(*name));
        is_first && (self.bytes[at] == b'[' || self.bytes[end..].trim_ascii_start().starts_with(b","))
    }

    pub(super) fn skip_argument(&mut self, end: usize) {
        self.at = end;
        self.argument_end = end;
    }

    /// Returns whether an array is assigned to a name: `items = […]`.
    pub(super) fn is_assigned(&self, at: usize) -> bool {
        self.bytes[..at].trim_ascii_end().ends_with(b"=")
    }
}

/// Returns whether a value is a row of numbers: `[[1, 2], [3, 4]]` has two.
pub(super) fn is_row(item: &Value) -> bool {
    item.as_array().is_some_and(|row| !row.is_empty() && row.iter().all(Value::is_number))
}

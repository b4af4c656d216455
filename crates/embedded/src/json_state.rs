//! Tracks the position in a partial JSON document: the open containers and the member names of open objects.

use std::collections::HashSet;

/// The state at the end of a partial JSON document.
#[derive(Debug, Clone, Default)]
pub(crate) struct JsonState {
    open: Vec<Container>,
    string: Option<Text>,
}

#[derive(Debug, Clone)]
enum Container {
    Array,
    Object {
        names: HashSet<Vec<u8>>,
        /// Whether the next string is a member name.
        at_name: bool,
    },
}

/// An unterminated string.
#[derive(Debug, Clone, Default)]
struct Text {
    is_name: bool,
    bytes: Vec<u8>,
    /// Whether the last byte was an escaping backslash.
    is_escaped: bool,
}

/// The events in a sequence of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JsonEvents {
    /// Whether a string began or ended.
    pub(crate) string_boundary: bool,
    /// Whether a member name occurred twice in one object.
    pub(crate) repeated_name: bool,
}

impl JsonState {
    pub(crate) fn is_in_string(&self) -> bool {
        self.string.is_some()
    }

    /// Appends bytes to the document.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> JsonEvents {
        let mut events = JsonEvents::default();
        for byte in bytes {
            self.step(*byte, &mut events);
        }
        events
    }

    /// Returns whether these bytes would complete a duplicate member name in the same object.
    pub(crate) fn would_repeat_name(&self, bytes: &[u8]) -> bool {
        // A name ends with a quote. This check avoids the clone for most tokens.
        bytes.contains(&b'"') && self.clone().advance(bytes).repeated_name
    }

    fn step(&mut self, byte: u8, events: &mut JsonEvents) {
        if let Some(text) = &mut self.string {
            match byte {
                b'"' if !text.is_escaped => {
                    events.string_boundary = true;
                    let text = self.string.take().unwrap_or_default();
                    if let (true, Some(Container::Object { names, at_name })) =
                        (text.is_name, self.open.last_mut())
                    {
                        events.repeated_name |= !names.insert(text.bytes);
                        *at_name = false;
                    }
                }
                _ => {
                    text.is_escaped = byte == b'\\' && !text.is_escaped;
                    // Values are not compared, so only names are stored.
                    if text.is_name {
                        text.bytes.push(byte);
                    }
                }
            }
            return;
        }
        match byte {
            b'"' => {
                events.string_boundary = true;
                let is_name = matches!(self.open.last(), Some(Container::Object { at_name: true, .. }));
                self.string = Some(Text { is_name, ..Text::default() });
            }
            b'{' => self.open.push(Container::Object { names: HashSet::new(), at_name: true }),
            b'[' => self.open.push(Container::Array),
            b'}' | b']' => drop(self.open.pop()),
            b',' => {
                if let Some(Container::Object { at_name, .. }) = self.open.last_mut() {
                    *at_name = true;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_name_is_detected_within_one_object_only() {
        let seen = |text: &str| JsonState::default().advance(text.as_bytes()).repeated_name;
        assert!(seen(r#"{"a": 1, "b": {"c": 2}, "a""#));
        assert!(!seen(r#"{"a": 1, "b": {"a": "a"}, "c": ["a", "a", {"a": 1}, {"a": 2}]}"#));
        assert!(!seen(r#"{"a\"": 1, "a": "\\", "b": "a"}"#));
        let mut state = JsonState::default();
        state.advance(br#"{"id": "x", "i"#);
        assert!(state.would_repeat_name(b"d\""));
        assert!(!state.would_repeat_name(b"d2\""));
        assert!(!state.would_repeat_name(b"d"));
        assert!(state.is_in_string());
    }
}

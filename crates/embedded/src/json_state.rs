//! Where in a JSON document an answer stands: which objects are open, under which names something is in them.

use std::collections::HashSet;

/// A document that is being written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outline {
    open: Vec<Container>,
    string: Option<Text>,
}

#[derive(Debug, Clone)]
enum Container {
    Array,
    Object {
        names: HashSet<Vec<u8>>,
        /// Whether the next string is a name.
        at_name: bool,
    },
}

/// A string that is not at its end.
#[derive(Debug, Clone, Default)]
struct Text {
    is_name: bool,
    bytes: Vec<u8>,
    escaped: bool,
}

/// What happened in some bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// A string began or ended.
    pub(crate) turned: bool,
    /// A member has the name of another.
    pub(crate) repeated_name: bool,
}

impl Outline {
    pub(crate) fn inside_string(&self) -> bool {
        self.string.is_some()
    }

    /// More of the document was written.
    pub(crate) fn see(&mut self, bytes: &[u8]) -> Seen {
        let mut seen = Seen::default();
        for byte in bytes {
            self.step(*byte, &mut seen);
        }
        seen
    }

    /// Whether these bytes would give a member the name of another in the same object.
    pub(crate) fn would_repeat_name(&self, bytes: &[u8]) -> bool {
        // Only a quote ends a name.
        bytes.contains(&b'"') && self.clone().see(bytes).repeated_name
    }

    fn step(&mut self, byte: u8, seen: &mut Seen) {
        if let Some(text) = &mut self.string {
            match byte {
                b'"' if !text.escaped => {
                    seen.turned = true;
                    let text = self.string.take().unwrap_or_default();
                    if let (true, Some(Container::Object { names, at_name })) =
                        (text.is_name, self.open.last_mut())
                    {
                        seen.repeated_name |= !names.insert(text.bytes);
                        *at_name = false;
                    }
                }
                _ => {
                    text.escaped = byte == b'\\' && !text.escaped;
                    // Only names are compared.
                    if text.is_name {
                        text.bytes.push(byte);
                    }
                }
            }
            return;
        }
        match byte {
            b'"' => {
                seen.turned = true;
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
    fn a_name_is_repeated_only_in_its_own_object() {
        let seen = |text: &str| Outline::default().see(text.as_bytes()).repeated_name;
        assert!(seen(r#"{"a": 1, "b": {"c": 2}, "a""#));
        assert!(!seen(r#"{"a": 1, "b": {"a": "a"}, "c": ["a", "a", {"a": 1}, {"a": 2}]}"#));
        assert!(!seen(r#"{"a\"": 1, "a": "\\", "b": "a"}"#));
        let mut outline = Outline::default();
        outline.see(br#"{"id": "x", "i"#);
        assert!(outline.would_repeat_name(b"d\""));
        assert!(!outline.would_repeat_name(b"d2\""));
        assert!(!outline.would_repeat_name(b"d"));
        assert!(outline.inside_string());
    }
}

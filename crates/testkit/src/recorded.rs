//! What a client sent.

use serde_json::Value;

use crate::protocol::Protocol;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// `POST`, `GET`, …
    pub method: String,
    /// The target as sent, with its query.
    pub path: String,
    /// Names as sent, in the order sent.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; null when it is none.
    pub body: Value,
    /// The body's bytes.
    pub raw: Vec<u8>,
}

impl Recorded {
    /// The first header of this name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The protocol that the path belongs to; none for anything but a request to a model.
    pub fn protocol(&self) -> Option<Protocol> {
        if self.method == "POST" { Protocol::of(self.route()) } else { None }
    }

    /// Whether the client asked for a stream.
    pub fn streams(&self) -> bool {
        self.body["stream"] == Value::Bool(true)
    }

    /// All text of the prompt, system text and earlier turns included, a line for each part: for replies that depend on
    /// what was asked.
    pub fn prompt(&self) -> String {
        let mut lines = Vec::new();
        collect_text(&self.body["system"], &mut lines);
        collect_text(&self.body["prompt"], &mut lines);
        for message in self.body["messages"].as_array().into_iter().flatten() {
            collect_text(&message["content"], &mut lines);
        }
        lines.join("\n")
    }

    /// The path without its query.
    pub(crate) fn route(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }
}

/// A content is a string, or a list of strings and of parts with a `text`.
fn collect_text<'a>(content: &'a Value, lines: &mut Vec<&'a str>) {
    match content {
        Value::String(text) => lines.push(text),
        Value::Array(parts) => {
            for part in parts {
                lines.extend(part.as_str().or_else(|| part["text"].as_str()));
            }
        }
        _ => {}
    }
}

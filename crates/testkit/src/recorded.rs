//! Recorded requests.

use serde_json::Value;

use crate::protocol::Protocol;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The HTTP method, such as `POST`.
    pub method: String,
    /// The request target as sent, with its query.
    pub path: String,
    /// Headers as sent, in order.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; null if it is not JSON.
    pub body: Value,
    /// The body's bytes.
    pub raw: Vec<u8>,
}

impl Recorded {
    /// Returns the first header with this name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the protocol of a model request; `None` for any other request.
    pub fn protocol(&self) -> Option<Protocol> {
        if self.method == "POST" { Protocol::of(self.route()) } else { None }
    }

    /// Returns whether the client asked for a stream.
    pub fn streams(&self) -> bool {
        self.body["stream"] == Value::Bool(true)
    }

    /// Returns all text of the prompt, one line per part, including system text and earlier turns. Responders
    /// use it to choose a reply.
    pub fn prompt(&self) -> String {
        let mut lines = Vec::new();
        collect_text(&self.body["system"], &mut lines);
        collect_text(&self.body["prompt"], &mut lines);
        for message in self.body["messages"].as_array().into_iter().flatten() {
            collect_text(&message["content"], &mut lines);
        }
        lines.join("\n")
    }

    /// Returns the path without its query.
    pub(crate) fn route(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }
}

/// Collects the text of a content value: a string, or a list of strings and of parts with `text`.
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

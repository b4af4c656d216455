//! API keys and their redaction in errors and replies.

use slipform_types::{KEY_REMOVED, REDACTED, Reply, StopReason};

/// The shortest key that is redacted. Shorter ones would match unrelated text.
const SECRET_BYTES_MIN: usize = 6;

/// The shortest key that is redacted in replies. Shorter ones are placeholders for local servers, such as
/// `ollama`, and redacting them would damage results.
const REPLY_SECRET_BYTES_MIN: usize = 12;

/// The shortest part of a key that is taken for one at the edge of a text that was cut.
const EDGE_BYTES_MIN: usize = 8;

/// An optional API key. Its `Debug` output does not show the key.
#[derive(Clone, Default)]
pub struct Secret {
    key: Option<String>,
    /// The forms in which a server may echo the key: as it is, escaped for JSON, and percent-encoded.
    spellings: Vec<String>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.key.is_some() { "Secret([redacted])" } else { "Secret(none)" })
    }
}

impl Secret {
    /// Creates a secret from a key. Surrounding whitespace is removed; an empty key counts as none.
    pub fn new(key: Option<String>) -> Secret {
        let key = key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
        let mut spellings = Vec::new();
        if let Some(key) = key.as_deref().filter(|key| key.len() >= SECRET_BYTES_MIN) {
            for spelling in [key.to_owned(), json_escaped(key), percent_encoded(key)] {
                if !spellings.contains(&spelling) {
                    spellings.push(spelling);
                }
            }
        }
        Secret { key, spellings }
    }

    /// Returns the key, for the header that authenticates requests.
    pub(crate) fn expose(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns whether a string in a JSON text contains the key in any of its spellings.
    pub fn occurs_in_json(&self, json: &str) -> bool {
        let occurs = |spelling: &str| memchr::memmem::find(json.as_bytes(), spelling.as_bytes()).is_some();
        let occurs_escaped =
            |spelling: &str| spelling.contains(['"', '\\']) && occurs(&json_escaped(spelling));
        self.spellings.iter().any(|spelling| occurs(spelling) || occurs_escaped(spelling))
    }

    /// Replaces every occurrence of the key by `[redacted]`.
    pub fn redact(&self, mut text: String) -> String {
        for spelling in &self.spellings {
            if memchr::memmem::find(text.as_bytes(), spelling.as_bytes()).is_some() {
                text = text.replace(spelling.as_str(), REDACTED);
            }
        }
        text
    }

    /// Redacts parts of the key that a cut left: at the beginning and end of a text, and beside each ellipsis in it.
    pub fn redact_edges(&self, text: String) -> String {
        let Some(key) = self.key.as_deref().filter(|key| key.len() > EDGE_BYTES_MIN) else { return text };
        let pieces: Vec<String> = text.split('…').map(|piece| redact_fragments(key, piece)).collect();
        pieces.join("…")
    }

    /// Redacts the key in all texts of a reply, so that a server that echoes headers cannot write it to the
    /// journal. Short placeholder keys such as `ollama` are kept.
    ///
    /// A tool call whose arguments contained the key is flagged, because its arguments have changed.
    pub fn redact_reply(&self, mut reply: Reply) -> Reply {
        if !self.is_redacted_in_replies() {
            return reply;
        }
        reply.text = self.redact(reply.text);
        reply.reasoning = self.redact(reply.reasoning);
        reply.model = self.redact(reply.model);
        if let StopReason::Refused { message } = &mut reply.stop {
            *message = self.redact(std::mem::take(message));
        }
        for call in &mut reply.tool_calls {
            call.id = self.redact(std::mem::take(&mut call.id));
            call.name = self.redact(std::mem::take(&mut call.name));
            let arguments = self.redact(call.arguments.clone());
            if arguments != call.arguments {
                // The flag prevents the call: the arguments are no longer those of the model.
                call.arguments = arguments;
                reply.flags.push(KEY_REMOVED.to_owned());
            }
        }
        reply
    }

    /// Redacts the key in a piece of a stream. Returns the safe text and a remainder that may be the start of
    /// the key. The caller prepends the remainder to the next piece.
    pub(crate) fn redact_piece(&self, piece: String) -> (String, String) {
        if !self.is_redacted_in_replies() {
            return (piece, String::new());
        }
        let mut clean = self.redact(piece);
        let overlap = |spelling: &String| {
            let longest = clean.len().min(spelling.len().saturating_sub(1));
            let is_overlap = |length: &usize| clean.as_bytes().ends_with(&spelling.as_bytes()[..*length]);
            (1..=longest).rev().find(is_overlap).unwrap_or(0)
        };
        let held = self.spellings.iter().map(overlap).max().unwrap_or(0);
        // A key is ASCII, so the split is at a character boundary.
        let rest = clean.split_off(clean.len() - held);
        (clean, rest)
    }

    fn is_redacted_in_replies(&self) -> bool {
        self.key.as_ref().is_some_and(|key| key.len() >= REPLY_SECRET_BYTES_MIN)
    }
}

/// Redacts the end of the key at the beginning of a text, and the beginning of the key at its end.
fn redact_fragments(key: &str, text: &str) -> String {
    let lengths = || (EDGE_BYTES_MIN..key.len()).rev();
    let tail = lengths().find(|length| {
        key.is_char_boundary(key.len() - length) && text.starts_with(&key[key.len() - length..])
    });
    let text = match tail {
        Some(length) => format!("{REDACTED}{}", &text[length..]),
        None => text.to_owned(),
    };
    let head = lengths().find(|length| key.is_char_boundary(*length) && text.ends_with(&key[..*length]));
    match head {
        Some(length) => format!("{}{REDACTED}", &text[..text.len() - length]),
        None => text,
    }
}

/// Escapes a text as in a JSON string, without the quotes.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Encodes a key as in a URL.
fn percent_encoded(key: &str) -> String {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    key.bytes()
        .map(|byte| if is_unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_redacted_in_text_and_debug_output() {
        let secret = Secret::new(Some(" sk-canary-123\n".to_owned()));
        assert_eq!(secret.expose(), Some("sk-canary-123"));
        assert_eq!(secret.redact("bad key sk-canary-123!".to_owned()), "bad key [redacted]!");
        assert_eq!(format!("{secret:?}"), "Secret([redacted])");
    }

    #[test]
    fn key_is_redacted_in_json_and_url_encoding() {
        let secret = Secret::new(Some("sk/can\"ary+1".to_owned()));
        for echoed in ["sk/can\"ary+1", "sk/can\\\"ary+1", "sk%2Fcan%22ary%2B1"] {
            assert_eq!(secret.redact(format!("<{echoed}>")), "<[redacted]>");
        }
    }
}

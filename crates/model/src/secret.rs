//! A provider's key: read from a named variable, used in one header, shown nowhere.

use slipform_types::{KEY_REMOVED, REDACTED, Reply, StopReason};

/// Shorter values are not looked for in texts: they would be found by chance.
const SECRET_BYTES_MIN: usize = 6;

/// Shorter keys are not taken out of replies: they are stand-ins, and the replies are results.
const REPLY_SECRET_BYTES_MIN: usize = 12;

/// The shortest part of a key that is taken for one at the edge of a text that was cut.
const EDGE_BYTES_MIN: usize = 8;

/// A key, or none.
#[derive(Clone, Default)]
pub struct Secret {
    key: Option<String>,
    /// The ways in which a server may write the key when it echoes it.
    spellings: Vec<String>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.key.is_some() { "Secret([redacted])" } else { "Secret(none)" })
    }
}

impl Secret {
    /// The key, where there is one.
    pub fn new(key: Option<String>) -> Secret {
        let key = key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
        let mut spellings = Vec::new();
        if let Some(key) = key.as_deref().filter(|key| key.len() >= SECRET_BYTES_MIN) {
            for spelling in [key.to_owned(), escaped(key), in_address(key)] {
                if !spellings.contains(&spelling) {
                    spellings.push(spelling);
                }
            }
        }
        Secret { key, spellings }
    }

    /// The key itself, for the one header that carries it.
    pub(crate) fn expose(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Whether a string in a JSON text holds the key, in any of its spellings.
    pub fn occurs_in_json(&self, json: &str) -> bool {
        let occurs = |spelling: &str| memchr::memmem::find(json.as_bytes(), spelling.as_bytes()).is_some();
        let is_escaped = |spelling: &str| spelling.contains(['"', '\\']) && occurs(&escaped(spelling));
        self.spellings.iter().any(|spelling| occurs(spelling) || is_escaped(spelling))
    }

    /// The text without the key.
    pub fn redact(&self, mut text: String) -> String {
        for spelling in &self.spellings {
            if memchr::memmem::find(text.as_bytes(), spelling.as_bytes()).is_some() {
                text = text.replace(spelling.as_str(), REDACTED);
            }
        }
        text
    }

    /// The text without a part of the key that a cut left at its beginning or end. The mark of a cut may stand before it.
    pub fn redact_edges(&self, text: String) -> String {
        let Some(key) = self.key.as_deref().filter(|key| key.len() > EDGE_BYTES_MIN) else { return text };
        let start = text.find(|character: char| character != '…').unwrap_or(0);
        let lengths = || (EDGE_BYTES_MIN..key.len()).rev();
        let tail = lengths().find(|length| {
            key.is_char_boundary(key.len() - length) && text[start..].starts_with(&key[key.len() - length..])
        });
        let text = match tail {
            Some(length) => format!("{}{REDACTED}{}", &text[..start], &text[start + length..]),
            None => text,
        };
        let end = text.trim_end_matches('…').len();
        let head =
            lengths().find(|length| key.is_char_boundary(*length) && text[..end].ends_with(&key[..*length]));
        match head {
            Some(length) => format!("{}{REDACTED}{}", &text[..end - length], &text[end..]),
            None => text,
        }
    }

    /// A reply goes into the journal; a server that echoes headers must not carry the key there. What
    /// local servers get for a key (`ollama`, `lm-studio`) is a word like any other and stays.
    pub fn redact_reply(&self, mut reply: Reply) -> Reply {
        if !self.is_taken_out_of_replies() {
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
                // A tool must not be called with what stands there now.
                call.arguments = arguments;
                reply.flags.push(KEY_REMOVED.to_owned());
            }
        }
        reply
    }

    /// A piece of a reply without the key, and the end of it that may be the beginning of the key, which has to wait for
    /// what follows.
    pub(crate) fn redact_piece(&self, piece: String) -> (String, String) {
        if !self.is_taken_out_of_replies() {
            return (piece, String::new());
        }
        let mut clean = self.redact(piece);
        let begins = |spelling: &String| {
            let most = clean.len().min(spelling.len().saturating_sub(1));
            let is_begun = |length: &usize| clean.as_bytes().ends_with(&spelling.as_bytes()[..*length]);
            (1..=most).rev().find(is_begun).unwrap_or(0)
        };
        let held = self.spellings.iter().map(begins).max().unwrap_or(0);
        // A key is plain ASCII, so that its beginning never splits a character.
        let rest = clean.split_off(clean.len() - held);
        (clean, rest)
    }

    fn is_taken_out_of_replies(&self) -> bool {
        self.key.as_ref().is_some_and(|key| key.len() >= REPLY_SECRET_BYTES_MIN)
    }
}

/// A text as it stands inside a JSON string.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The key as it stands in an address.
fn in_address(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    key.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_nowhere() {
        let secret = Secret::new(Some(" sk-canary-123\n".to_owned()));
        assert_eq!(secret.expose(), Some("sk-canary-123"));
        assert_eq!(secret.redact("bad key sk-canary-123!".to_owned()), "bad key [redacted]!");
        assert_eq!(format!("{secret:?}"), "Secret([redacted])");
    }

    #[test]
    fn a_key_is_found_as_json_and_addresses_write_it() {
        let secret = Secret::new(Some("sk/can\"ary+1".to_owned()));
        for echoed in ["sk/can\"ary+1", "sk/can\\\"ary+1", "sk%2Fcan%22ary%2B1"] {
            assert_eq!(secret.redact(format!("<{echoed}>")), "<[redacted]>");
        }
    }
}

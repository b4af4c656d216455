//! A provider's key: read from a named variable, used in one header, shown nowhere.

use formwork_types::{Reply, Stop};

/// What stands where a key stood.
const REDACTED: &str = "[redacted]";

/// Shorter values are not looked for in texts: they would be found by chance.
const SECRET_BYTES_MIN: usize = 6;

/// A key, or none.
#[derive(Clone, Default)]
pub(crate) struct Secret(Option<String>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_some() { "Secret([redacted])" } else { "Secret(none)" })
    }
}

impl Secret {
    pub(crate) fn new(key: Option<String>) -> Secret {
        Secret(key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()))
    }

    /// The key itself, for the one header that carries it.
    pub(crate) fn expose(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The text without the key.
    pub(crate) fn redact(&self, text: String) -> String {
        match &self.0 {
            Some(key)
                if key.len() >= SECRET_BYTES_MIN
                    && memchr::memmem::find(text.as_bytes(), key.as_bytes()).is_some() =>
            {
                text.replace(key.as_str(), REDACTED)
            }
            _ => text,
        }
    }

    /// A reply goes into the journal; a server that echoes headers must not carry the key there.
    pub(crate) fn redact_reply(&self, mut reply: Reply) -> Reply {
        reply.text = self.redact(reply.text);
        reply.reasoning = self.redact(reply.reasoning);
        reply.model = self.redact(reply.model);
        if let Stop::Refused { message } = &mut reply.stop {
            *message = self.redact(std::mem::take(message));
        }
        for call in &mut reply.tool_calls {
            call.id = self.redact(std::mem::take(&mut call.id));
            call.name = self.redact(std::mem::take(&mut call.name));
            call.arguments = self.redact(std::mem::take(&mut call.arguments));
        }
        reply
    }
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
}

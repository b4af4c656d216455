//! Decides which variables are secret, and redacts secret values from events.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use slipform_model::Secret;
use slipform_types::EventBody;

/// Minimum length of a secret. Shorter values are stand-ins, such as `ollama` for a key, and would match by
/// chance.
const SECRET_BYTES_MIN: usize = 12;

/// Endings of words in variable names that mark a secret: `OPENAI_API_KEY`, `DB_PASSWORD`.
const SECRET_WORDS: [&str; 12] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "AUTH",
    "AUTHORIZATION",
    "DSN",
];

/// Returns whether the value of a variable is secret, by its name or because it is a URL with a password.
pub fn is_secret_variable(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let mut words = name.split(|character: char| !character.is_ascii_alphanumeric());
    has_password(value) || words.any(|word| SECRET_WORDS.iter().any(|secret| word.ends_with(secret)))
}

/// Whether a value is a URL with a password: `scheme://user:password@host`.
fn has_password(value: &str) -> bool {
    let authority = value.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    user.and_then(|user| user.split_once(':')).is_some_and(|(_, password)| !password.is_empty())
}

/// Values to redact: keys of backends, tokens, passwords.
#[derive(Clone, Default)]
pub struct Secrets(Arc<[Secret]>);

impl Secrets {
    /// Creates the set from these values, without those that are too short.
    pub fn new(values: impl IntoIterator<Item = String>) -> Secrets {
        let mut values: Vec<String> = values.into_iter().map(|value| value.trim().to_owned()).collect();
        values.retain(|value| value.len() >= SECRET_BYTES_MIN);
        // Longest first, so that a secret that contains another one is replaced as a whole.
        values.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        values.dedup();
        Secrets(values.into_iter().map(|value| Secret::new(Some(value))).collect())
    }

    /// Returns these secrets and the given ones.
    #[must_use]
    pub fn with(&self, values: impl IntoIterator<Item = String>) -> Secrets {
        let others = Secrets::new(values);
        Secrets(self.0.iter().chain(others.0.iter()).cloned().collect())
    }

    /// Replaces each secret in a text by `[redacted]`.
    pub fn redact(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| secret.redact(text))
    }

    /// Replaces the secrets in all texts and keys of a JSON value.
    pub fn redact_json(&self, mut value: Value) -> Value {
        self.redact_value(&mut value);
        value
    }

    /// Replaces the secrets in all texts and keys of an event.
    pub(crate) fn redact_event(&self, mut body: EventBody) -> EventBody {
        if self.0.is_empty() {
            return body;
        }
        self.redact_cut_edges(&mut body);
        if !self.occur_in(&body) {
            return body;
        }
        if let EventBody::Message { reply, .. } = &mut body {
            // `redact_reply` marks calls whose arguments changed, so that no tool is called with them.
            **reply =
                self.0.iter().fold(std::mem::take(&mut **reply), |reply, secret| secret.redact_reply(reply));
        }
        let redacted = serde_json::to_value(&body).map(|mut value| {
            self.redact_value(&mut value);
            value
        });
        redacted.and_then(serde_json::from_value).unwrap_or_else(|error| EventBody::ToolsFailed {
            error: format!("event contained a secret and could not be redacted: {error}"),
        })
    }

    /// Redacts what a cut left of a secret at the edges of a text: tools and programs keep only parts of long output.
    fn redact_cut_edges(&self, body: &mut EventBody) {
        let (output, error) = match body {
            EventBody::PostTool { tool_output, error, .. } => (Some(tool_output), error.as_mut()),
            EventBody::ToolsFailed { error } => (None, Some(error)),
            EventBody::CallFailed { error } => (None, Some(&mut error.message)),
            _ => return,
        };
        let redact = |text: &mut String| {
            for secret in &*self.0 {
                *text = secret.redact_edges(std::mem::take(text));
            }
        };
        if let Some(error) = error {
            redact(error);
        }
        let mut pending: Vec<&mut Value> = output.into_iter().collect();
        while let Some(value) = pending.pop() {
            match value {
                Value::String(text) => redact(text),
                Value::Array(items) => pending.extend(items),
                Value::Object(members) => pending.extend(members.values_mut()),
                _ => {}
            }
        }
    }

    fn occur_in(&self, body: &EventBody) -> bool {
        // An event that cannot be serialized cannot be redacted; the append reports the error.
        let Ok(text) = serde_json::to_string(body) else { return false };
        self.0.iter().any(|secret| secret.occurs_in_json(&text))
    }

    fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redact(std::mem::take(text)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(members) => {
                for (key, mut member) in std::mem::take(members) {
                    self.redact_value(&mut member);
                    members.insert(self.redact(key), member);
                }
            }
            _ => {}
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} secrets", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_redacted_in_keys_texts_and_errors() {
        let address = "postgres://me:hunter2@db";
        let secrets = Secrets::new([address.to_owned(), "short".to_owned()]);
        let text = format!("{address} in /srv/projects/one, short");
        let body = secrets.redact_event(EventBody::PostTool {
            call_id: "c".to_owned(),
            tool_name: "t".to_owned(),
            tool_output: json!({"a": [text.clone()], address: 1}),
            error: Some(text),
        });
        let redacted = "[redacted] in /srv/projects/one, short";
        assert_eq!(
            serde_json::to_value(body).unwrap(),
            json!({
                "event_type": "post_tool", "call_id": "c", "tool_name": "t",
                "tool_output": {"a": [redacted], "[redacted]": 1}, "error": redacted,
            })
        );
        assert_eq!(format!("{secrets:?}"), "1 secrets");
    }

    #[test]
    fn secret_that_was_cut_is_redacted_at_the_edges_of_a_text() {
        let secrets = Secrets::new(["sk-test-0123456789abcdef".to_owned()]);
        let redacted = |text: &str| {
            let body = EventBody::ToolsFailed { error: text.to_owned() };
            match secrets.redact_event(body) {
                EventBody::ToolsFailed { error } => error,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(redacted("123456789abcdef is the end of it"), "[redacted] is the end of it");
        assert_eq!(redacted("…456789abcdef is the end"), "…[redacted] is the end");
        assert_eq!(redacted("it begins with sk-test-0123"), "it begins with [redacted]");
        assert_eq!(redacted("it begins with sk-te"), "it begins with sk-te");
        let failed = "the program 'sh' failed (exit status: 3): …st-0123456789abcdef and more";
        assert_eq!(redacted(failed), "the program 'sh' failed (exit status: 3): …[redacted] and more");
    }

    #[test]
    fn variables_are_secret_by_name_or_password() {
        for (name, value) in [
            ("OPENAI_API_KEY", "x"),
            ("github-token", "x"),
            ("PGPASSWORD", "x"),
            ("DATABASE_URL", "postgres://me:hunter2@db/x"),
        ] {
            assert!(is_secret_variable(name, value), "{name}");
        }
        for (name, value) in [
            ("GIT_AUTHOR", "x"),
            ("PROJECT_DIR", "/srv"),
            ("KEYBOARD", "x"),
            ("SITE", "https://a.example"),
            ("REPO", "ssh://git@host/a"),
        ] {
            assert!(!is_secret_variable(name, value), "{name}");
        }
    }
}

//! The variables that a blueprint names, with their values.

use std::fmt;

use formwork_model::Secret;
use formwork_types::Body;
use serde_json::Value;

/// Shorter values are stand-ins, and would be found by chance.
const SECRET_BYTES_MIN: usize = 12;

/// Words in the names of variables whose values are secrets.
const SECRET_WORDS: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "DSN"];

/// Variables and their values. Values may be keys, so that only names are shown.
#[derive(Clone, Default)]
pub struct Variables(Vec<(String, String)>);

impl Variables {
    /// Each name with its value.
    pub fn list(&self) -> &[(String, String)] {
        &self.0
    }

    /// What happened, without the values that a tool or program has repeated.
    pub(crate) fn redact(&self, mut body: Body) -> Body {
        for secret in self.secrets() {
            match &mut body {
                Body::PreTool { tool_input, .. } => redact(tool_input, &secret),
                Body::PostTool { tool_output, error, .. } => {
                    redact(tool_output, &secret);
                    *error = error.take().map(|error| secret.redact(error));
                }
                Body::StopRequested { partial } | Body::DeadlineReached { partial } => {
                    *partial = partial.take().map(|partial| secret.redact(partial));
                }
                Body::ToolsFailed { error } => *error = secret.redact(std::mem::take(error)),
                _ => {}
            }
        }
        body
    }

    fn secrets(&self) -> impl Iterator<Item = Secret> {
        let hidden = self.0.iter().filter(|(name, value)| is_secret(name, value));
        hidden.map(|(_, value)| Secret::new(Some(value.clone())))
    }
}

/// Whether a value must not be written down: by the variable's name, or because it is an address with a password.
fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let has_password = value.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    value.len() >= SECRET_BYTES_MIN && (has_password || SECRET_WORDS.iter().any(|word| name.contains(word)))
}

impl From<Vec<(String, String)>> for Variables {
    fn from(list: Vec<(String, String)>) -> Variables {
        Variables(list)
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

fn redact(value: &mut Value, secret: &Secret) {
    match value {
        Value::String(text) => *text = secret.redact(std::mem::take(text)),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, secret)),
        Value::Object(members) => {
            for (key, mut member) in std::mem::take(members) {
                redact(&mut member, secret);
                members.insert(secret.redact(key), member);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_taken_out_wherever_they_are_said_and_other_values_are_not() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let variables = Variables::from(vec![
            pair("DATABASE_URL", "postgres://me:hunter2@db"),
            pair("PROJECT_DIR", "/srv/projects/one"),
            pair("MODE", "fast"),
        ]);
        let said = "postgres://me:hunter2@db in /srv/projects/one, fast";
        let body = variables.redact(Body::PostTool {
            call_id: "c".to_owned(),
            tool_name: "t".to_owned(),
            tool_output: json!({"a": [said], "postgres://me:hunter2@db": 1}),
            error: Some(said.to_owned()),
        });
        let kept = "[redacted] in /srv/projects/one, fast";
        assert_eq!(
            serde_json::to_value(body).unwrap(),
            json!({
                "event_type": "post_tool", "call_id": "c", "tool_name": "t",
                "tool_output": {"a": [kept], "[redacted]": 1}, "error": kept,
            })
        );
        assert_eq!(format!("{variables:?}"), r#"["DATABASE_URL", "PROJECT_DIR", "MODE"]"#);
    }
}

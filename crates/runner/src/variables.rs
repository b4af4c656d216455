//! The environment variables that a blueprint names.

use std::fmt;

use serde_json::Value;
use slipform_types::EventBody;

use crate::secrets::is_secret_variable;

/// Shorter values are words such as `main`, which stand in texts by chance.
const VALUE_BYTES_MIN: usize = 6;

/// Variables and their values. `Debug` shows only the names, because values may be keys.
#[derive(Clone, Default)]
pub struct Variables(Vec<(String, String)>);

impl Variables {
    /// Returns the names and values.
    pub fn list(&self) -> &[(String, String)] {
        &self.0
    }

    /// Puts `${env.NAME}` in place of values in what the journal says about a call's input or failure: the blueprint named
    /// the variable there, and its value belongs to this machine.
    pub(crate) fn hide_values(&self, body: &mut EventBody) {
        let named = self.0.iter().filter(|(_, value)| value.len() >= VALUE_BYTES_MIN);
        for (name, value) in named {
            let hide = |text: &mut String| {
                if text.contains(value.as_str()) {
                    *text = text.replace(value.as_str(), &format!("${{env.{name}}}"));
                }
            };
            match body {
                EventBody::PreTool { tool_input, .. } => hide_in(tool_input, &hide),
                EventBody::PostTool { error: Some(error), .. } | EventBody::ToolsFailed { error } => {
                    hide(error)
                }
                _ => {}
            }
        }
    }

    /// Returns the values that must be redacted.
    pub fn secret_values(&self) -> impl Iterator<Item = String> {
        let secret = self.0.iter().filter(|(name, value)| is_secret_variable(name, value));
        secret.map(|(_, value)| value.clone())
    }
}

fn hide_in(value: &mut Value, hide: &impl Fn(&mut String)) {
    match value {
        Value::String(text) => hide(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide_in(item, hide)),
        Value::Object(members) => members.values_mut().for_each(|member| hide_in(member, hide)),
        _ => {}
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_names_only() {
        let variables = Variables::from(vec![("API_KEY".to_owned(), "sk-canary".to_owned())]);
        assert_eq!(format!("{variables:?}"), r#"["API_KEY"]"#);
        assert_eq!(variables.secret_values().collect::<Vec<_>>(), ["sk-canary"]);
    }
}

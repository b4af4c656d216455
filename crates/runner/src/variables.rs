//! The variables that a blueprint names, with their values.

use std::fmt;

use crate::secrets::is_secret_variable;

/// Variables and their values. Values may be keys, so only names are shown.
#[derive(Clone, Default)]
pub struct Variables(Vec<(String, String)>);

impl Variables {
    /// Each name with its value.
    pub fn list(&self) -> &[(String, String)] {
        &self.0
    }

    /// The values that must not be written down.
    pub fn secret_values(&self) -> impl Iterator<Item = String> {
        let secret = self.0.iter().filter(|(name, value)| is_secret_variable(name, value));
        secret.map(|(_, value)| value.clone())
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

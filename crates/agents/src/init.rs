//! The template for new agent files.

use crate::Error;
use crate::names::{is_name, is_reserved_name};

const STARTER: &str = include_str!("init/starter.yaml");

/// Returns the text of a new agent file, with comments that explain the keys.
///
/// # Errors
/// Returns an error if the name is not a valid agent name, or is reserved.
pub fn starter(name: &str) -> Result<String, Error> {
    if !is_name(name) {
        return Err(Error::Name { name: name.to_owned() });
    }
    if is_reserved_name(name) {
        return Err(Error::ReservedName { name: name.to_owned() });
    }
    // The name is quoted if YAML would read it as a number, a boolean or null.
    let is_word = name.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !["null", "true", "false"].contains(&name.to_ascii_lowercase().as_str())
        && !name.bytes().next().is_some_and(|first| first.is_ascii_digit());
    let written = if is_word { name.to_owned() } else { format!("\"{name}\"") };
    Ok(STARTER.replace("{name}", &written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, parse};

    #[test]
    fn starter_parses_without_warnings_for_any_name() {
        for name in ["greeter", "7", "true", "Null", "0x1F", "1e5"] {
            let checked = parse(&starter(name).unwrap(), Format::Yaml, None).unwrap();
            assert_eq!(checked.blueprint.name, name);
            assert_eq!(checked.warnings, []);
            assert!(checked.blueprint.output_schema.is_some() && checked.blueprint.output_example.is_some());
        }
        assert!(starter("no good").is_err());
        for name in ["validate", "Agent"] {
            assert!(starter(name).unwrap_err().to_string().contains("reserved"), "{name}");
        }
    }
}

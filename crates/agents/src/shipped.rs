//! The built-in agents. An agent of the project with the same name takes precedence.

use std::path::PathBuf;

use crate::document::Format;
use crate::load::{Loaded, parse};

/// The name and file of each built-in agent.
const SHIPPED: [(&str, &str); 11] = [
    ("researcher", include_str!("../../../agents/researcher.yaml")),
    ("implementer", include_str!("../../../agents/implementer.yaml")),
    ("reviewer", include_str!("../../../agents/reviewer.yaml")),
    ("tester", include_str!("../../../agents/tester.yaml")),
    ("planning", include_str!("../../../agents/planning.yaml")),
    ("answer", include_str!("../../../agents/answer.yaml")),
    ("verification", include_str!("../../../agents/verification.yaml")),
    ("clarity", include_str!("../../../agents/clarity.yaml")),
    ("research", include_str!("../../../agents/research.yaml")),
    ("custom", include_str!("../../../agents/custom.yaml")),
    ("orchestrator", include_str!("../../../agents/orchestrator.yaml")),
];

/// Returns the names of the built-in agents.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Returns the built-in agent with this name.
pub fn shipped(name: &str) -> Option<Loaded> {
    let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
    let path = PathBuf::from(format!("shipped/{name}.yaml"));
    Some(Loaded { name: name.to_owned(), path, result: parse(text, Format::Yaml, Some(name)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_agent_is_valid_and_named_like_its_file() {
        for name in shipped_names() {
            let checked = shipped(name).unwrap().result.unwrap();
            assert_eq!(checked.blueprint.name, name);
            assert_eq!(checked.warnings, [], "{name}");
            // The orchestrator answers in free text.
            assert_eq!(checked.blueprint.output_schema.is_some(), name != "orchestrator", "{name}");
        }
    }
}

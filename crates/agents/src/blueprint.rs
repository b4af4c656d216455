//! From a value to a blueprint that can be used, or everything that is wrong with it.

mod rules;

use std::sync::LazyLock;

use serde_json::{Map, Value};
use slipform_schema::{Schema, Segment, json_path, shipped};
use slipform_types::Blueprint;

use crate::names::suggestion;
use crate::problem::PROBLEMS_MAX;
use crate::{Problem, Problems, kb};

/// The JSON Schema of a blueprint, for editors and for whoever writes agents by program. Names and the
/// schemas inside a blueprint are checked beyond it.
pub const BLUEPRINT_SCHEMA: &str = include_str!("blueprint.schema.json");

/// A blueprint that can be used, and what looks wrong in it all the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The blueprint.
    pub blueprint: Blueprint,
    /// What probably does not mean what was meant.
    pub warnings: Vec<Problem>,
}

/// What was found on the way.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    /// Problems that were found and not kept.
    pub(crate) more: usize,
}

impl Findings {
    pub(crate) fn problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add_problem(Problem::new(path, message));
    }

    pub(crate) fn add_problem(&mut self, problem: Problem) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn warning(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add_warning(Problem::new(path, message));
    }

    pub(crate) fn add_warning(&mut self, warning: Problem) {
        if self.warnings.len() < PROBLEMS_MAX {
            self.warnings.push(warning);
        }
    }
}

/// Checks an agent's definition, whether a blueprint or a `kb.agent/1` document. `fallback_name` is the
/// name of an agent that does not say its own.
///
/// # Errors
/// Everything that is wrong with it, each with its path.
pub fn check(value: &Value, fallback_name: Option<&str>) -> Result<Checked, Problems> {
    let mut findings = Findings::default();
    let blueprint = match value {
        Value::Object(definition) if kb::is_kb(definition) => {
            kb::examine(definition, fallback_name, &mut findings)
        }
        Value::Object(definition) => examine(definition.clone(), fallback_name, &mut findings),
        _ => {
            findings.problem("$", "an agent is a mapping of keys such as 'name' and 'system_prompt'");
            None
        }
    };
    match blueprint {
        Some(blueprint) if findings.problems.is_empty() => {
            Ok(Checked { blueprint, warnings: findings.warnings })
        }
        _ => Err(Problems { list: findings.problems, more: findings.more }),
    }
}

/// Checks a blueprint in its own keys.
pub(crate) fn examine(
    mut definition: Map<String, Value>,
    fallback_name: Option<&str>,
    findings: &mut Findings,
) -> Option<Blueprint> {
    normalise(&mut definition);
    take_shipped(&mut definition, findings);
    if let Some(name) = fallback_name.filter(|_| !definition.contains_key("name")) {
        definition.insert("name".to_owned(), name.into());
    }
    let mut value = Value::Object(definition);
    check_shape(&mut value, findings);
    if let Value::Object(definition) = &value {
        rules::check(definition, findings);
    }
    if !findings.problems.is_empty() {
        return None;
    }
    match serde_json::from_value(value) {
        Ok(blueprint) => Some(blueprint),
        Err(error) => {
            // The shape admits nothing that serde does not; a test compares their keys.
            findings.problem("$", format!("cannot be read as a blueprint: {error}"));
            None
        }
    }
}

/// Leaves out optional keys that say nothing (`output_schema: null` is no output schema) and writes
/// whole numbers as such (`3.0` is an integer to JSON Schema).
fn normalise(definition: &mut Map<String, Value>) {
    definition.retain(|_, value| !value.is_null());
    for key in ["limits", "default_output_schema_options"] {
        let Some(Value::Object(inner)) = definition.get_mut(key) else { continue };
        inner.retain(|_, value| !value.is_null());
        for value in inner.values_mut() {
            if let Some(whole) = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0)
                && (0.0..=f64::from(u32::MAX)).contains(&whole)
            {
                *value = Value::from(whole as u64);
            }
        }
    }
}

/// Puts the schemas that come with the program in the place of their names.
fn take_shipped(definition: &mut Map<String, Value>, findings: &mut Findings) {
    for key in ["output_schema", "default_output_schema"] {
        let Some(Value::String(name)) = definition.get(key) else { continue };
        if let Some(known) = shipped().iter().find(|known| known.name == name) {
            definition.insert(key.to_owned(), known.schema.source().clone());
        } else {
            let known: Vec<&str> = shipped().iter().map(|known| known.name).collect();
            let message = format!(
                "no schema '{name}' comes with the program; write the schema itself, or one of: {}",
                known.join(", ")
            );
            findings.problem(format!("$.{key}"), message);
            definition.remove(key);
        }
    }
}

static SHAPE: LazyLock<Result<Schema, String>> = LazyLock::new(|| {
    let source: Value = serde_json::from_str(BLUEPRINT_SCHEMA).map_err(|error| error.to_string())?;
    Schema::compile(&source).map_err(|error| error.to_string())
});

fn check_shape(value: &mut Value, findings: &mut Findings) {
    let shape = match &*SHAPE {
        Ok(shape) => shape,
        Err(error) => return findings.problem("$", format!("the schema of blueprints is broken: {error}")),
    };
    remove_unknown(value, shape.source(), &mut Vec::new(), findings);
    let violations = shape.violations(value);
    for violation in &violations.list {
        findings.problem(&violation.path, &violation.message);
    }
    findings.more += violations.more;
}

/// Reports keys that a closed object of the schema does not have, there and in the objects below it, with
/// what was probably meant. They are removed, so that the schema does not report them a second time.
fn remove_unknown(value: &mut Value, schema: &Value, place: &mut Vec<Segment>, findings: &mut Findings) {
    let (Value::Object(object), Some(known)) = (value, schema.get("properties").and_then(Value::as_object))
    else {
        return;
    };
    object.retain(|key, child| {
        place.push(Segment::Key(key.clone()));
        match known.get(key) {
            Some(schema) => {
                remove_unknown(child, schema, place, findings);
                let each = schema.get("additionalProperties").unwrap_or(&Value::Null);
                for (name, entry) in child.as_object_mut().into_iter().flatten() {
                    place.push(Segment::Key(name.clone()));
                    remove_unknown(entry, each, place, findings);
                    place.pop();
                }
            }
            None => findings.problem(json_path(place), unknown_key(key, known.keys().map(String::as_str))),
        }
        place.pop();
        known.contains_key(key)
    });
}

/// The message for a key that nobody knows.
fn unknown_key<'c>(key: &str, known: impl Iterator<Item = &'c str> + Clone) -> String {
    match suggestion(key, known.clone()) {
        Some(meant) => format!("unknown key '{key}'; did you mean '{meant}'?"),
        None => {
            format!(
                "unknown key '{key}', remove it; the keys here are {}",
                known.collect::<Vec<_>>().join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_knows_the_keys_of_the_type() {
        let options = json!({
            "max_retries": 1, "extract_json": true, "strict_json_only": true, "validation_mode": "lenient",
            "strategy": "tool", "correction": "full", "schema_form": "json", "reject_placeholders": true,
        });
        let limits = json!({"max_steps": 1, "max_tool_calls": 2, "timeout_seconds": 3, "max_tokens": 4});
        let full: Blueprint = serde_json::from_value(json!({
            "name": "a", "title": "A", "description": "d", "type": "procedural", "command": ["./scan"],
            "parameters_as": "stdin", "system_prompt": "s", "parameters_schema": {}, "output_schema": {}, "default_output_schema": {},
            "default_output_schema_options": options, "output_example": 1, "response_type": "planning", "protocol": "actions",
            "tools": ["t"], "opening": [{"tool": "t"}], "agents": ["b"], "mcp_servers": {"m": {"url": "http://x"}}, "cites": ["$"], "changes": ["$"], "clarity": {}, "checks": ["$"], "tier": "small",
            "escalation": ["small"], "limits": limits, "env": ["E"],
        }))
        .unwrap();
        let schema: Value = serde_json::from_str(BLUEPRINT_SCHEMA).unwrap();
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let full = serde_json::to_value(full).unwrap();
        assert_eq!(keys(&schema["properties"]), keys(&full));
        for key in ["limits", "default_output_schema_options"] {
            assert_eq!(keys(&schema["properties"][key]["properties"]), keys(&full[key]), "{key}");
        }
    }
}

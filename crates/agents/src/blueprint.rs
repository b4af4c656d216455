//! Checks a value and converts it to a blueprint, or reports everything that is wrong with it.

mod rules;

use std::sync::LazyLock;

use serde_json::{Map, Value};
use slipform_schema::{Schema, Segment, json_path, shipped};
use slipform_types::Blueprint;

use crate::names::suggestion;
use crate::problem::PROBLEMS_MAX;
use crate::surroundings::Surroundings;
use crate::{Problem, Problems, kb};

/// The JSON Schema of a blueprint, for editors and generators of agent files. [`check`] also
/// validates names and the nested schemas.
pub const BLUEPRINT_SCHEMA: &str = include_str!("blueprint.schema.json");

/// A valid blueprint with its warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// A blueprint whose schemas compile and whose keys are consistent.
    pub blueprint: Blueprint,
    /// Parts that are valid but probably not intended.
    pub warnings: Vec<Problem>,
}

/// The problems and warnings found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    /// The number of problems dropped beyond [`PROBLEMS_MAX`].
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

    /// Adds the problem at a path, if there is one.
    pub(crate) fn problems_at(&mut self, path: &str, message: Option<String>) {
        if let Some(message) = message {
            self.problem(path, message);
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

/// Checks the definition of an agent, either a blueprint or a `kb.agent/1` document.
/// `fallback_name` is used if the definition has no name.
///
/// # Errors
/// Returns every problem of the definition with its path.
pub fn check(value: &Value, fallback_name: Option<&str>) -> Result<Checked, Problems> {
    check_in(value, fallback_name, None)
}

/// As [`check`], and checks what the definition refers to if its surroundings are known.
pub(crate) fn check_in(
    value: &Value,
    fallback_name: Option<&str>,
    surroundings: Option<&Surroundings<'_>>,
) -> Result<Checked, Problems> {
    let mut findings = Findings::default();
    let blueprint = match value {
        Value::Object(definition) if kb::is_kb(definition) => {
            kb::examine(definition, fallback_name, surroundings, &mut findings)
        }
        Value::Object(definition) => examine(definition.clone(), fallback_name, surroundings, &mut findings),
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

/// Checks a definition in the keys of a blueprint.
pub(crate) fn examine(
    mut definition: Map<String, Value>,
    fallback_name: Option<&str>,
    surroundings: Option<&Surroundings<'_>>,
    findings: &mut Findings,
) -> Option<Blueprint> {
    normalise(&mut definition);
    resolve_schema_names(&mut definition, findings);
    if let Some(name) = fallback_name.filter(|_| !definition.contains_key("name")) {
        definition.insert("name".to_owned(), name.into());
    }
    let mut value = Value::Object(definition);
    check_shape(&mut value, findings);
    if let Value::Object(definition) = &value {
        rules::check(definition, findings);
        if let Some(surroundings) = surroundings {
            surroundings.check(definition, findings);
        }
    }
    if !findings.problems.is_empty() {
        return None;
    }
    match serde_json::from_value(value) {
        Ok(blueprint) => Some(blueprint),
        Err(error) => {
            // The schema accepts only values that deserialize; a test compares their keys.
            findings.problem("$", format!("cannot be read as a blueprint: {error}"));
            None
        }
    }
}

/// Removes null values of optional keys and writes whole floats as integers (`3.0` is an integer in
/// JSON Schema).
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

/// Replaces the names of shipped schemas by the schemas. Other names stay, because only the coordinator knows the registered
/// schemas.
fn resolve_schema_names(definition: &mut Map<String, Value>, findings: &mut Findings) {
    for (key, name_key) in
        [("output_schema", "output_schema_name"), ("default_output_schema", "default_output_schema_name")]
    {
        let name = match definition.get(key) {
            Some(Value::String(name)) => name.clone(),
            // The schema itself takes precedence, as in a request.
            Some(_) => {
                if definition.remove(name_key).is_some() {
                    let message = format!("has no effect beside {key}; keep one of them");
                    findings.warning(format!("$.{name_key}"), message);
                }
                continue;
            }
            None => match definition.get(name_key) {
                Some(Value::String(name)) => name.clone(),
                _ => continue,
            },
        };
        definition.remove(key);
        definition.remove(name_key);
        match shipped().iter().find(|known| known.name == name) {
            Some(known) => definition.insert(key.to_owned(), known.schema.source().clone()),
            None => definition.insert(name_key.to_owned(), Value::String(name)),
        };
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

/// Reports unknown keys in the closed objects of the schema, with a suggestion. Removes them, so
/// that validation does not report them again.
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

/// Returns the message for an unknown key.
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
    fn blueprint_schema_has_the_keys_of_the_type() {
        let options = json!({
            "max_retries": 1, "extract_json": true, "strict_json_only": true, "validation_mode": "lenient",
            "strategy": "tool", "correction": "full", "schema_form": "json", "reject_placeholders": true,
        });
        let limits = json!({"max_steps": 1, "max_tool_calls": 2, "timeout_seconds": 3, "max_tokens": 4});
        let full: Blueprint = serde_json::from_value(json!({
            "name": "a", "title": "A", "description": "d", "type": "procedural", "command": ["./scan"],
            "parameters_as": "stdin", "system_prompt": "s", "parameters_schema": {}, "output_schema": {}, "output_schema_name": "n", "default_output_schema": {}, "default_output_schema_name": "n",
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

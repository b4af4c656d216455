//! The parameters of a run: validation, and the text that the model reads.

use serde::Serialize;
use serde_json::{Value, json};
use slipform_schema::{Cache, Segment, json_path};
use slipform_types::{AgentType, Blueprint, ParametersAs};
use thiserror::Error;

use crate::Problem;

/// Parameters that violate the schema of the agent. Serializes as the `details` of the API error.
#[derive(Debug, Clone, PartialEq, Serialize, Error)]
#[error("the agent '{agent_name}' does not take these parameters: {}", joined(validation_errors))]
pub struct InvalidParameters {
    /// The name of the agent.
    pub agent_name: String,
    /// The violations, in the order of the parameters.
    pub validation_errors: Vec<Problem>,
    /// The violated schema.
    pub parameters_schema: Value,
}

fn joined(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// How deep defaults are looked for. Deeper ones stay unset.
const DEFAULTS_DEPTH_MAX: usize = 32;

/// Returns the parameters with the `default` of every property that is missing, also inside objects and lists that are
/// present.
pub fn with_defaults(blueprint: &Blueprint, mut parameters: Value) -> Value {
    if let Some(root) = &blueprint.parameters_schema {
        apply_defaults(root, root, &mut parameters, DEFAULTS_DEPTH_MAX);
    }
    parameters
}

fn apply_defaults(root: &Value, schema: &Value, value: &mut Value, depth: usize) {
    if depth == 0 {
        return;
    }
    if let Some(pointer) = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'))
        && let Some(target) = root.pointer(pointer)
    {
        apply_defaults(root, target, value, depth - 1);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        apply_defaults(root, part, value, depth - 1);
    }
    match value {
        Value::Object(members) => {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if let (None, Some(default)) = (members.get(name), property.get("default")) {
                    members.insert(name.clone(), default.clone());
                }
                if let Some(member) = members.get_mut(name) {
                    apply_defaults(root, property, member, depth - 1);
                }
            }
        }
        Value::Array(items) if schema["items"].is_object() => {
            items.iter_mut().for_each(|item| apply_defaults(root, &schema["items"], item, depth - 1));
        }
        _ => {}
    }
}

/// Checks the parameters of a run that starts a session.
///
/// # Errors
/// Returns the violations of the schema.
pub fn check(blueprint: &Blueprint, parameters: &Value) -> Result<(), InvalidParameters> {
    check_with(&Cache::default(), blueprint, parameters)
}

/// Like [`check`], with a cache of compiled schemas.
///
/// # Errors
/// See [`check`].
pub fn check_with(cache: &Cache, blueprint: &Blueprint, parameters: &Value) -> Result<(), InvalidParameters> {
    let schema = blueprint.schema_of_parameters();
    check_against(cache, schema.clone(), blueprint, parameters)?;
    let problems = undeclared(blueprint, &schema, parameters);
    if problems.is_empty() {
        return Ok(());
    }
    let agent_name = blueprint.name.clone();
    Err(InvalidParameters { agent_name, validation_errors: problems, parameters_schema: schema })
}

/// The number of subschemas in which declarations are looked for. Names in others count as undeclared.
const DECLARING_SCHEMAS_MAX: usize = 256;

/// Returns a problem for each parameter that a program would receive although its agent does not declare it. A caller
/// could otherwise choose options of the program.
fn undeclared(blueprint: &Blueprint, schema: &Value, parameters: &Value) -> Vec<Problem> {
    if blueprint.kind != AgentType::Procedural {
        return Vec::new();
    }
    let declared = Declared::of(schema);
    // Names in a document are data. Names on a command line are options.
    if declared.has_rule_for_others && blueprint.parameters_as == ParametersAs::Stdin {
        return Vec::new();
    }
    let names = declared.names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let names = if names.is_empty() { ", and there are none".to_owned() } else { format!(": {names}") };
    let message =
        format!("is not a declared parameter; a program receives only those under properties{names}");
    let given = parameters.as_object().into_iter().flatten().map(|(name, _)| name);
    given
        .filter(|name| !declared.names.contains(&name.as_str()))
        .map(|name| Problem::new(json_path(&[Segment::Key(name.clone())]), message.clone()))
        .collect()
}

/// The parameters that a schema declares, in all of its branches.
#[derive(Default)]
struct Declared<'s> {
    names: Vec<&'s str>,
    /// Whether the schema describes the values of other names.
    has_rule_for_others: bool,
}

impl<'s> Declared<'s> {
    fn of(root: &'s Value) -> Declared<'s> {
        let mut declared = Declared::default();
        let mut seen: Vec<&Value> = Vec::new();
        let mut pending = vec![root];
        while let Some(schema) = pending.pop() {
            // References may lead back to a schema that was read.
            if seen.len() >= DECLARING_SCHEMAS_MAX || seen.iter().any(|known| std::ptr::eq(*known, schema)) {
                continue;
            }
            seen.push(schema);
            declared.read(schema);
            let reference = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
            pending.extend(reference.and_then(|pointer| root.pointer(pointer)));
            pending.extend(["if", "then", "else"].iter().filter_map(|key| schema.get(*key)));
            pending.extend(
                ["allOf", "anyOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()).flatten(),
            );
            pending.extend(
                schema["dependentSchemas"].as_object().into_iter().flat_map(|members| members.values()),
            );
        }
        declared
    }

    fn read(&mut self, schema: &'s Value) {
        for (name, _) in schema["properties"].as_object().into_iter().flatten() {
            if !self.names.contains(&name.as_str()) {
                self.names.push(name);
            }
        }
        let rules = ["additionalProperties", "unevaluatedProperties", "patternProperties"];
        self.has_rule_for_others |=
            rules.iter().any(|key| schema.get(*key).is_some_and(|rule| *rule != json!(false)));
    }
}

/// Checks the parameters of a run that resumes a session: a prompt, regardless of
/// `parameters_schema`.
///
/// # Errors
/// Returns the violations if the parameters are not a single prompt.
pub fn check_resume(blueprint: &Blueprint, parameters: &Value) -> Result<(), InvalidParameters> {
    check_against(&Cache::default(), Blueprint::default().schema_of_parameters(), blueprint, parameters)
}

fn check_against(
    cache: &Cache,
    schema: Value,
    blueprint: &Blueprint,
    parameters: &Value,
) -> Result<(), InvalidParameters> {
    let mut problems = Vec::new();
    match cache.compile(&schema) {
        Err(error) => problems.push(Problem::new("$", format!("parameters_schema cannot be used: {error}"))),
        // A schema may omit the type, but parameters are always an object.
        Ok(_) if !parameters.is_object() => problems.push(Problem::new("$", "parameters must be an object")),
        Ok(compiled) => {
            let violations = compiled.violations(parameters);
            let list = violations.list.into_iter();
            problems.extend(list.map(|violation| Problem::new(violation.path, violation.message)));
            if violations.more > 0 {
                problems.push(Problem::new("$", format!("… and {} more violations", violations.more)));
            }
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let agent_name = blueprint.name.clone();
    Err(InvalidParameters { agent_name, validation_errors: problems, parameters_schema: schema })
}

/// Returns the parameters as the text that the model reads.
///
/// Without a `parameters_schema` this is the prompt, unchanged. Otherwise it is an `<inputs>`
/// block, followed by the prompt. The block has a line `key: value` for each parameter, in the
/// given order. Lists and objects are one-line JSON; multi-line strings start below their key,
/// indented by two.
///
/// A `prompt` that is text always follows the block, even if the schema declares it. Any other
/// `prompt` is an ordinary input. A prompt alone has no block; without any parameters the block is
/// empty, so that the message never is.
pub fn inputs_text(blueprint: &Blueprint, parameters: &Value) -> String {
    let prompt = parameters.get("prompt").and_then(Value::as_str);
    if blueprint.parameters_schema.is_none() {
        return prompt.unwrap_or_default().to_owned();
    }
    let entries = parameters.as_object().into_iter().flatten();
    let lines: Vec<String> = entries
        .filter(|(key, value)| !(*key == "prompt" && value.is_string()))
        .map(|(key, value)| line(key, value))
        .collect();
    match prompt {
        Some(prompt) if lines.is_empty() => prompt.to_owned(),
        prompt => {
            let mut text = String::from("<inputs>\n");
            text.push_str(&without_end_tag(&lines.concat()));
            text.push_str("</inputs>");
            if let Some(prompt) = prompt {
                text.push_str("\n\n");
                text.push_str(prompt);
            }
            text
        }
    }
}

/// Escapes what would end the block, in any spelling that a model may take for it.
fn without_end_tag(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (index, part) in text.split("</").enumerate() {
        if index > 0 {
            let name = part.trim_start().get(.."inputs".len()).unwrap_or_default();
            escaped.push_str(if name.eq_ignore_ascii_case("inputs") { "<\\/" } else { "</" });
        }
        escaped.push_str(part);
    }
    escaped
}

fn line(key: &str, value: &Value) -> String {
    // A key with special characters is quoted, so that it cannot inject other lines.
    let is_plain = |letter: char| !letter.is_control() && !matches!(letter, ':' | '<' | '>' | '"');
    let key =
        if !key.is_empty() && key.chars().all(is_plain) { key.to_owned() } else { json!(key).to_string() };
    match value {
        Value::String(text) if text.contains('\n') => {
            let indented = text
                .lines()
                .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") });
            format!("{key}:\n{}", indented.collect::<String>())
        }
        Value::String(text) => format!("{key}: {text}\n"),
        other => format!("{key}: {other}\n"),
    }
}

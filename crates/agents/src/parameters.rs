//! The parameters of a run: whether they are what the agent takes, and how the model reads them.

use serde::Serialize;
use serde_json::{Value, json};
use slipform_schema::Cache;
use slipform_types::Blueprint;
use thiserror::Error;

use crate::Problem;

/// Parameters that an agent does not take; serialises as the `details` of the API's error.
#[derive(Debug, Clone, PartialEq, Serialize, Error)]
#[error("the agent '{agent_name}' does not take these parameters: {}", joined(validation_errors))]
pub struct InvalidParameters {
    /// The agent.
    pub agent_name: String,
    /// What is wrong, in the order of the parameters.
    pub validation_errors: Vec<Problem>,
    /// What the agent takes.
    pub parameters_schema: Value,
}

fn joined(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What the parameters of an agent must satisfy: its `parameters_schema`, or a prompt and nothing else.
pub fn schema(blueprint: &Blueprint) -> Value {
    blueprint.parameters_schema.clone().unwrap_or_else(prompt_schema)
}

fn prompt_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"prompt": {"type": "string", "minLength": 1}},
        "required": ["prompt"],
        "additionalProperties": false,
    })
}

/// Checks the parameters of a run that starts a session.
///
/// # Errors
/// When they are not what the agent takes.
pub fn check(blueprint: &Blueprint, parameters: &Value) -> Result<(), InvalidParameters> {
    check_with(&Cache::default(), blueprint, parameters)
}

/// The same for whoever checks often: schemas are compiled once.
///
/// # Errors
/// As [`check`].
pub fn check_with(cache: &Cache, blueprint: &Blueprint, parameters: &Value) -> Result<(), InvalidParameters> {
    check_against(cache, schema(blueprint), blueprint, parameters)
}

/// Checks the parameters of a run that resumes a session: a prompt, whatever the agent takes at first.
///
/// # Errors
/// When they are anything else.
pub fn check_resume(blueprint: &Blueprint, parameters: &Value) -> Result<(), InvalidParameters> {
    check_against(&Cache::default(), prompt_schema(), blueprint, parameters)
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
        // A schema may leave the type unsaid; parameters are named all the same.
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

/// The parameters as the text that the model reads.
///
/// Without a `parameters_schema` that is the prompt as it is. Otherwise it is an `<inputs>` block with a
/// line `key: value` for each parameter, in the order given, lists and objects as one-line JSON,
/// strings of several lines below their key and indented by two; and after it the prompt. A `prompt`
/// that is text always stands after the block, declared by the schema or not: it is what is asked, and
/// what is asked comes last. One that is not text is an input like any other. A prompt alone needs no
/// block; no parameters at all give an empty one, so that the message is never empty.
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
            text.extend(lines);
            text.push_str("</inputs>");
            if let Some(prompt) = prompt {
                text.push_str("\n\n");
                text.push_str(prompt);
            }
            text
        }
    }
}

fn line(key: &str, value: &Value) -> String {
    // A key that could be taken for more than a key is quoted, so that it cannot make up other lines.
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

//! Placeholders: `${params.x}`, `${env.X}`, `${runtime.session_id}` and `${runtime.run_id}`.
//!
//! They are filled in the title, description, system prompt and command, in the arguments of
//! opening calls and in MCP servers. Schemas, examples and names are unchanged. `$${` stands for a
//! literal `${`. Filled values are not scanned again, so a parameter cannot inject placeholders.
//!
//! An argument of an opening call that consists of one parameter placeholder keeps the type of the
//! parameter. An opening call with a missing parameter is dropped. An opening search takes only the
//! task of a parameter, without headings and context.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use serde_json::{Map, Value};
use slipform_schema::{Additional, Schema, Segment, json_path};
use slipform_types::{Blueprint, McpServer, RunId, SEARCHING_TOOLS, SessionId};

use crate::blueprint::Findings;
use crate::task::task_of;
use crate::{Error, Problem, Problems};

/// The values of placeholders in one run.
#[derive(Clone, Copy)]
pub struct FillContext<'a> {
    /// The parameters of the run, an object.
    pub parameters: &'a Value,
    /// The value of `${runtime.session_id}`.
    pub session_id: &'a SessionId,
    /// The value of `${runtime.run_id}`.
    pub run_id: &'a RunId,
    /// Looks up an environment variable. Called only for names that the blueprint lists under
    /// `env`.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
}

/// A blueprint with filled placeholders.
#[derive(Debug, Clone, PartialEq)]
pub struct Filled {
    /// The blueprint for the model. Variables in its command and MCP servers stay placeholders.
    pub blueprint: Blueprint,
    /// The blueprint for the journal. All variables stay placeholders, because their values may be
    /// keys.
    pub journaled: Blueprint,
    /// The command, with the values of variables.
    pub command: Vec<String>,
    /// The MCP servers, with the values of variables.
    pub mcp_servers: BTreeMap<String, McpServer>,
}

/// Fills in every placeholder.
///
/// # Errors
/// Returns all placeholders without a value, each with its path.
pub fn fill(blueprint: &Blueprint, context: &FillContext<'_>) -> Result<Filled, Error> {
    let Blueprint { command, mcp_servers, .. } = fill_all(blueprint, context, VariableHandling::Filled)?;
    let journaled = fill_all(blueprint, context, VariableHandling::Kept)?;
    let blueprint = fill_all(blueprint, context, VariableHandling::KeptInPrograms)?;
    Ok(Filled { blueprint, journaled, command, mcp_servers })
}

/// Selects the placeholders of variables to fill in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VariableHandling {
    Filled,
    /// Those in commands and MCP servers are kept.
    KeptInPrograms,
    Kept,
}

fn fill_all(
    blueprint: &Blueprint,
    context: &FillContext<'_>,
    variables: VariableHandling,
) -> Result<Blueprint, Error> {
    let mut filled = blueprint.clone();
    let mut problems = Vec::new();
    let mut fill = |context: &FillContext<'_>, path: String, text: &mut String| {
        let is_of_program = path.starts_with("$.command") || path.starts_with("$.mcp_servers");
        let is_kept = variables == VariableHandling::Kept
            || (variables == VariableHandling::KeptInPrograms && is_of_program);
        let resolve = |name: &str| match (value_of(name, blueprint, context), Placeholder::read(name)) {
            (Ok(_), Ok(Placeholder::Environment(_))) if is_kept => Ok(format!("${{{name}}}")),
            (value, _) => value,
        };
        match replace(text, resolve) {
            Ok(replaced) if is_argument(&path) && is_option_by_parameter(text, &replaced) => {
                problems.push(Problem::new(path, option_message(text)));
            }
            Ok(replaced) => *text = replaced,
            Err(messages) => {
                problems.extend(messages.into_iter().map(|message| Problem::new(path.clone(), message)));
            }
        }
    };
    fill(context, "$.description".to_owned(), &mut filled.description);
    for (path, text) in [("$.title", &mut filled.title), ("$.system_prompt", &mut filled.system_prompt)] {
        if let Some(text) = text {
            fill(context, path.to_owned(), text);
        }
    }
    for (index, text) in filled.command.iter_mut().enumerate() {
        fill(context, format!("$.command[{index}]"), text);
    }
    for (index, mut call) in std::mem::take(&mut filled.opening).into_iter().enumerate() {
        if lacks_parameter(&call.arguments, context.parameters) {
            continue;
        }
        let path = format!("$.opening[{index}].arguments");
        let tasks;
        let mut context = *context;
        if SEARCHING_TOOLS.contains(&call.tool.as_str()) {
            tasks = tasks_of(context.parameters);
            context.parameters = &tasks;
        }
        fill_texts(&mut call.arguments, &path, &context, &mut fill);
        filled.opening.push(call);
    }
    for (name, server) in &mut filled.mcp_servers {
        let place =
            |key: &str| json_path(&["mcp_servers", name, key].map(|key| Segment::Key(key.to_owned())));
        match server {
            McpServer::Url { url } => fill(context, place("url"), url),
            McpServer::Command { command } => {
                for (index, text) in command.iter_mut().enumerate() {
                    fill(context, format!("{}[{index}]", place("command")), text);
                }
            }
        }
    }
    if problems.is_empty() {
        Ok(filled)
    } else {
        Err(Error::Placeholders {
            agent: blueprint.name.clone(),
            problems: Problems { list: problems, more: 0 },
        })
    }
}

fn option_message(word: &str) -> String {
    format!(
        "{word} begins with '-', which the program could read as an option; send another value, or let the agent's \
         author write it behind an option as in --NAME={word}"
    )
}

/// Returns whether a path is that of a word of a command.
fn is_argument(path: &str) -> bool {
    path.starts_with("$.command[") || (path.starts_with("$.mcp_servers") && path.ends_with(']'))
}

/// Returns whether a parameter made an option of a word of a command. The word of an author who wrote the dash is an
/// option already.
fn is_option_by_parameter(word: &str, replaced: &str) -> bool {
    if word.starts_with('-') || !replaced.starts_with('-') {
        return false;
    }
    let has_parameter = Cell::new(false);
    // The word was filled in before, so each of its placeholders can be read.
    let _ = replace(word, |name| {
        let is_parameter = matches!(Placeholder::read(name), Ok(Placeholder::Parameter(_)));
        has_parameter.set(has_parameter.get() || is_parameter);
        Ok(String::new())
    });
    has_parameter.get()
}

/// Returns whether a value uses a parameter that the run does not have.
fn lacks_parameter(value: &Value, parameters: &Value) -> bool {
    match value {
        Value::String(text) => {
            let lacks = Cell::new(false);
            // Other problems are reported when the text is filled in.
            let _ = replace(text, |name| {
                if let Ok(Placeholder::Parameter(path)) = Placeholder::read(name) {
                    lacks.set(lacks.get() || parameter(path, parameters).is_none());
                }
                Ok(String::new())
            });
            lacks.get()
        }
        Value::Array(items) => items.iter().any(|item| lacks_parameter(item, parameters)),
        Value::Object(members) => members.values().any(|member| lacks_parameter(member, parameters)),
        _ => false,
    }
}

/// Returns the parameter for a text that is exactly one placeholder. It keeps its type.
fn whole_parameter<'p>(text: &str, parameters: &'p Value) -> Option<&'p Value> {
    let name = text.strip_prefix("${")?.strip_suffix('}').filter(|name| !name.contains(['}', '\n']))?;
    match Placeholder::read(name.trim()) {
        Ok(Placeholder::Parameter(path)) => parameter(path, parameters),
        _ => None,
    }
}

/// Returns the parameters with the task of each text. Searches look for the task, not for its headings.
fn tasks_of(parameters: &Value) -> Value {
    let task = |value: &Value| value.as_str().map_or_else(|| value.clone(), |text| task_of(text).into());
    match parameters {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), task(value))).collect(),
        other => other.clone(),
    }
}

/// Fills in the texts inside a value.
fn fill_texts(
    value: &mut Value,
    path: &str,
    context: &FillContext<'_>,
    fill: &mut impl FnMut(&FillContext<'_>, String, &mut String),
) {
    match value {
        Value::String(text) => match whole_parameter(text, context.parameters) {
            Some(given) => *value = given.clone(),
            None => fill(context, path.to_owned(), text),
        },
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                fill_texts(item, &format!("{path}[{index}]"), context, fill);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                let segment = json_path(&[Segment::Key(key.clone())]);
                let path = format!("{path}{}", segment.trim_start_matches('$'));
                fill_texts(member, &path, context, fill);
            }
        }
        _ => {}
    }
}

fn value_of(name: &str, blueprint: &Blueprint, context: &FillContext<'_>) -> Result<String, String> {
    match Placeholder::read(name)? {
        Placeholder::SessionId => Ok(context.session_id.to_string()),
        Placeholder::RunId => Ok(context.run_id.to_string()),
        Placeholder::Environment(variable) => {
            if !blueprint.env.iter().any(|listed| listed == variable) {
                return Err(not_listed(variable));
            }
            (context.environment)(variable).ok_or_else(|| {
                format!("${{{name}}} has no value: the environment variable {variable} is not set")
            })
        }
        Placeholder::Parameter(path) => match parameter(path, context.parameters) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value) => Ok(value.to_string()),
            None => Err(format!("${{{name}}} has no value: the run has no parameter '{path}'")),
        },
    }
}

/// Returns the parameter at a path of keys and list indexes.
fn parameter<'p>(path: &str, parameters: &'p Value) -> Option<&'p Value> {
    path.split('.').try_fold(parameters, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        other => other.get(step),
    })
}

/// Reports placeholders that cannot have a value in any run.
pub(crate) fn check(definition: &Map<String, Value>, findings: &mut Findings) {
    let listed: Vec<&str> = definition
        .get("env")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let parameters = definition.get("parameters_schema").map(Schema::compile);
    let possible = |name: &str| match Placeholder::read(name)? {
        Placeholder::Environment(variable) if !listed.contains(&variable) => Err(not_listed(variable)),
        Placeholder::Parameter(path) => {
            let first = path.split('.').next().unwrap_or_default();
            let is_known = match &parameters {
                None => path == "prompt",
                Some(Ok(schema)) => {
                    let shape = schema.shape();
                    shape.property(first).is_some()
                        || shape.alternatives().is_some()
                        || !matches!(shape.additional(), Additional::Never)
                }
                Some(Err(_)) => true,
            };
            if is_known {
                Ok(String::new())
            } else {
                Err(format!("${{{name}}} can have no value: parameters_schema has no '{first}'"))
            }
        }
        _ => Ok(String::new()),
    };
    for (place, text) in texts(definition) {
        for message in replace(text, possible).err().into_iter().flatten() {
            findings.problem(json_path(&place), message);
        }
    }
}

/// Returns the listed variables that placeholders of a definition name, each with the path of its text.
pub(crate) fn listed_variables(definition: &Map<String, Value>) -> Vec<(String, String)> {
    let listed = definition.get("env").and_then(Value::as_array);
    let is_listed = |variable: &str| listed.is_some_and(|names| names.iter().any(|name| name == variable));
    let found = RefCell::new(Vec::new());
    for (place, text) in texts(definition) {
        // Other placeholders are checked elsewhere.
        let _ = replace(text, |name| {
            if let Ok(Placeholder::Environment(variable)) = Placeholder::read(name)
                && is_listed(variable)
            {
                found.borrow_mut().push((json_path(&place), variable.to_owned()));
            }
            Ok(String::new())
        });
    }
    found.into_inner()
}

/// Returns the texts of a definition that may have placeholders, each with its location.
fn texts(definition: &Map<String, Value>) -> Vec<(Vec<Segment>, &str)> {
    let keys = ["title", "description", "system_prompt", "command", "opening", "mcp_servers"];
    let mut found = Vec::new();
    let mut pending: Vec<(Vec<Segment>, &Value)> = keys
        .iter()
        .rev()
        .filter_map(|key| Some((vec![Segment::Key((*key).to_owned())], definition.get(*key)?)))
        .collect();
    while let Some((place, value)) = pending.pop() {
        let below = |segment| place.iter().cloned().chain([segment]).collect::<Vec<_>>();
        match value {
            Value::String(text) => found.push((place, text.as_str())),
            Value::Array(items) => {
                let items = items.iter().enumerate().rev();
                pending.extend(items.map(|(index, item)| (below(Segment::Index(index)), item)));
            }
            Value::Object(entries) => {
                let entries = entries.iter().rev();
                pending.extend(entries.map(|(key, value)| (below(Segment::Key(key.clone())), value)));
            }
            _ => {}
        }
    }
    found
}

enum Placeholder<'n> {
    Parameter(&'n str),
    Environment(&'n str),
    SessionId,
    RunId,
}

impl<'n> Placeholder<'n> {
    fn read(name: &'n str) -> Result<Placeholder<'n>, String> {
        match name.split_once('.') {
            Some(("params", path)) if !path.is_empty() => Ok(Placeholder::Parameter(path)),
            Some(("env", variable)) if !variable.is_empty() => Ok(Placeholder::Environment(variable)),
            Some(("runtime", "session_id")) => Ok(Placeholder::SessionId),
            Some(("runtime", "run_id")) => Ok(Placeholder::RunId),
            _ => Err(format!(
                "${{{name}}} is not a placeholder; use ${{params.NAME}}, ${{env.NAME}}, ${{runtime.session_id}} or \
                 ${{runtime.run_id}}, or write $${{ for a literal ${{"
            )),
        }
    }
}

fn not_listed(variable: &str) -> String {
    format!("${{env.{variable}}} is not allowed: list {variable} under env")
}

/// Replaces every placeholder, or returns one message for each that has no value.
fn replace(text: &str, value_of: impl Fn(&str) -> Result<String, String>) -> Result<String, Vec<String>> {
    let mut replaced = String::with_capacity(text.len());
    let mut messages = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(escaped) = before.strip_suffix('$') {
            replaced.push_str(escaped);
            replaced.push_str("${");
            rest = &from[2..];
            continue;
        }
        replaced.push_str(before);
        // A placeholder must end on its line, so that a missing brace does not consume the rest of
        // the text.
        let inner = &from[2..];
        match inner.find(['}', '\n']).filter(|end| inner[*end..].starts_with('}')) {
            Some(end) => {
                match value_of(inner[..end].trim()) {
                    Ok(value) => replaced.push_str(&value),
                    Err(message) => messages.push(message),
                }
                rest = &inner[end + 1..];
            }
            None => {
                messages.push(
                    "a placeholder begins with '${' but has no '}'; write $${ for a literal ${".to_owned(),
                );
                rest = inner;
            }
        }
    }
    replaced.push_str(rest);
    if messages.is_empty() { Ok(replaced) } else { Err(messages) }
}

/// Escapes every `${` as a literal.
pub(crate) fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

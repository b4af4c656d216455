//! Reads the parameters of a run from the command line.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value};
use slipform_extract::TEXT_BYTES_MAX;
use slipform_schema::{Schema, Types};

use crate::arguments::Run;
use crate::source;

/// Merges all parameters into one object: the file first, then `--param`, then the prompt.
pub(super) fn read_parameters(arguments: &Run, parameters_schema: &Value) -> Result<Value> {
    let mut given = match &arguments.params {
        Some(path) => from_file(path)?,
        None => Map::new(),
    };
    let schema = Schema::compile(parameters_schema).ok();
    for parameter in &arguments.param {
        let (name, text) = parameter
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .with_context(|| format!("invalid `--param {parameter}`; write NAME=VALUE"))?;
        // A parameter of type string stays a string, even if it looks like a number.
        let wants_text = schema.as_ref().is_some_and(|schema| {
            schema.shape().property(name).is_some_and(|shape| shape.types() == Types::STRING)
        });
        given.insert(name.to_owned(), typed(text, wants_text));
    }
    if let Some(prompt) = &arguments.prompt {
        let prompt = Value::String(read_prompt(prompt)?);
        match given.get("prompt") {
            Some(other) if *other != prompt => {
                bail!("`--prompt` and the parameter `prompt` differ; pass only one of them")
            }
            _ => given.insert("prompt".to_owned(), prompt),
        };
    }
    Ok(Value::Object(given))
}

/// Returns the prompt, from standard input if it is `-`.
pub(crate) fn read_prompt(prompt: &str) -> Result<String> {
    if prompt == "-" { read(None) } else { Ok(prompt.to_owned()) }
}

fn from_file(path: &Path) -> Result<Map<String, Value>> {
    let text = read(Some(path))?;
    let value: Value = serde_json::from_str(&text)
        .with_context(|| format!("`--params {}`: the file is not JSON", path.display()))?;
    match value {
        Value::Object(members) => Ok(members),
        _ => bail!(
            "`--params {}`: the file must contain a JSON object with one member per parameter",
            path.display()
        ),
    }
}

fn read(path: Option<&Path>) -> Result<String> {
    let bytes = source::read_bytes(path, TEXT_BYTES_MAX)?;
    if bytes.len() > TEXT_BYTES_MAX {
        bail!("the input is longer than {TEXT_BYTES_MAX} bytes; shorten it");
    }
    let text =
        String::from_utf8(source::strip_bom(&bytes).to_vec()).context("the input is not UTF-8 text")?;
    Ok(text)
}

/// Parses a value as JSON, or returns it as a string if the agent expects one or it is not JSON.
fn typed(text: &str, wants_text: bool) -> Value {
    if wants_text {
        return Value::String(text.to_owned());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

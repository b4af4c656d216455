//! Procedural agents: a program takes the place of the model, and its standard output is the
//! result.

use serde_json::Value;
use slipform_types::{Blueprint, ParametersAs};

use crate::action::Execution;

/// The id of the only call of a procedural agent.
pub(crate) const CALL_ID: &str = "program";

/// Returns the program to run, with the parameters passed as the blueprint specifies.
pub(crate) fn execution(blueprint: &Blueprint, parameters: &Value) -> Execution {
    let mut argv = blueprint.command.clone();
    if blueprint.parameters_as == ParametersAs::Arguments {
        argv.extend(arguments(parameters));
    }
    let stdin = match blueprint.parameters_as {
        ParametersAs::Stdin => parameters.to_string(),
        ParametersAs::Arguments | ParametersAs::Placeholders => String::new(),
    };
    Execution { call_id: CALL_ID.to_owned(), argv, stdin }
}

/// Converts parameters to arguments: `--name value`, `--name` for true, nothing for false and null,
/// lists joined by commas.
///
/// A value that begins with `-` becomes `--name=value`, so that no program reads it as an option.
fn arguments(parameters: &Value) -> Vec<String> {
    let mut list = Vec::new();
    for (name, value) in parameters.as_object().into_iter().flatten() {
        let text = match value {
            Value::Null | Value::Bool(false) => continue,
            Value::Bool(true) => {
                list.push(format!("--{name}"));
                continue;
            }
            Value::Array(items) => items.iter().map(argument_text).collect::<Vec<_>>().join(","),
            other => argument_text(other),
        };
        if text.starts_with('-') {
            list.push(format!("--{name}={text}"));
        } else {
            list.extend([format!("--{name}"), text]);
        }
    }
    list
}

fn argument_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_parameter_value_becomes_one_argument() {
        let parameters = json!({
            "path": "a b; rm -rf /", "deep": true, "dry": false, "none": null, "max": 3, "ratio": 0.5,
            "names": ["x", 1, "y z"], "where": {"a": [1]}, "empty": [], "rules": "-rf", "low": -3, "list": ["-x", "y"],
        });
        assert_eq!(
            arguments(&parameters),
            [
                "--path",
                "a b; rm -rf /",
                "--deep",
                "--max",
                "3",
                "--ratio",
                "0.5",
                "--names",
                "x,1,y z",
                "--where",
                "{\"a\":[1]}",
                "--empty",
                "",
                "--rules=-rf",
                "--low=-3",
                "--list=-x,y",
            ]
        );
    }
}

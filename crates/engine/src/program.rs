//! Procedural agents: a program in place of a model. Its standard output is the result.

use formwork_types::{Blueprint, ParametersAs};
use serde_json::Value;

use crate::action::Execution;

/// The id of the only call that a procedural agent makes.
pub(crate) const CALL_ID: &str = "program";

/// What is to be run, with the parameters in the form that the blueprint names.
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

/// Parameters as arguments: `--name value`, `--name` for true, nothing for false and null, lists with commas.
fn arguments(parameters: &Value) -> Vec<String> {
    let mut list = Vec::new();
    for (name, value) in parameters.as_object().into_iter().flatten() {
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => list.push(format!("--{name}")),
            Value::Array(items) => {
                list.push(format!("--{name}"));
                list.push(items.iter().map(plain).collect::<Vec<_>>().join(","));
            }
            other => list.extend([format!("--{name}"), plain(other)]),
        }
    }
    list
}

fn plain(value: &Value) -> String {
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
    fn parameters_become_arguments_and_never_more_than_one_each() {
        let parameters = json!({
            "path": "a b; rm -rf /", "deep": true, "dry": false, "none": null, "max": 3, "ratio": 0.5,
            "names": ["x", 1, "y z"], "where": {"a": [1]}, "empty": [],
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
            ]
        );
    }
}

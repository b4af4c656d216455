//! Procedural agents: a program in place of a model. Its standard output is the result.

use serde_json::Value;
use slipform_extract::{Options, Outcome, extract};
use slipform_types::{Blueprint, ParametersAs, RunErrorType};

use crate::action::Execution;
use crate::state::State;

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

impl State {
    /// The program of a procedural agent has ended. There is nobody to ask again.
    pub(crate) fn program_ended(&mut self, output: &Value, error: Option<&str>) {
        self.program = None;
        if let Some(error) = error {
            let kind = match output["timed_out"] == true {
                true => RunErrorType::Timeout,
                false => RunErrorType::ToolFailed,
            };
            return self.end(kind, error.to_owned());
        }
        let text = output["stdout"].as_str().unwrap_or_default().trim();
        self.usage.replies.push(text.to_owned());
        // The strictest reading: what can be read in two ways, or not exactly, is refused.
        let options = Options { strict_json_only: true, ..Options::default() };
        let value = match extract(text, None, &options) {
            Outcome::Valid(extraction) => extraction.value,
            _ if text.is_empty() => {
                return self.no_output("it is empty; the program has to write its result there, as JSON");
            }
            Outcome::NotFound { reason } => return self.no_output(&reason),
            _ => return self.no_output("the text is not one JSON document"),
        };
        let violations = self.contract().map(|contract| contract.violations(&value));
        match violations.filter(|violations| !violations.is_empty()) {
            Some(violations) => {
                self.usage.failed(&value, &violations);
                let message = "The program's output did not match schema".to_owned();
                self.fail(RunErrorType::OutputSchemaValidationFailed, message, violations.lines());
            }
            None => self.succeed_with_data(value),
        }
    }

    /// What a program wrote is no result.
    fn no_output(&mut self, reason: &str) {
        let message = format!("the program's standard output is no result: {reason}");
        match self.contract().is_some() {
            true => {
                let errors = vec![format!("$: {message}")];
                self.fail(RunErrorType::OutputSchemaValidationFailed, message, errors);
            }
            false => self.end(RunErrorType::ToolFailed, message),
        }
    }
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

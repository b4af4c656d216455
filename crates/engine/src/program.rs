//! Procedural agents: a program takes the place of the model, and its standard output is the
//! result.

use serde_json::Value;
use slipform_extract::{Options, Outcome, extract};
use slipform_types::{Blueprint, ParametersAs, RunErrorType};

use crate::action::Execution;
use crate::state::State;

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
fn arguments(parameters: &Value) -> Vec<String> {
    let mut list = Vec::new();
    for (name, value) in parameters.as_object().into_iter().flatten() {
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => list.push(format!("--{name}")),
            Value::Array(items) => {
                list.push(format!("--{name}"));
                list.push(items.iter().map(argument_text).collect::<Vec<_>>().join(","));
            }
            other => list.extend([format!("--{name}"), argument_text(other)]),
        }
    }
    list
}

impl State {
    /// Handles the end of the program. A program is not retried.
    pub(crate) fn handle_program_end(&mut self, output: &Value, error: Option<&str>) {
        self.tools.program = None;
        if let Some(error) = error {
            let kind =
                if output["timed_out"] == true { RunErrorType::Timeout } else { RunErrorType::ToolFailed };
            return self.end(kind, error.to_owned());
        }
        let text = output["stdout"].as_str().unwrap_or_default().trim();
        self.usage.replies.push(text.to_owned());
        // Output that is ambiguous or not exact JSON is refused.
        let options = Options { strict_json_only: true, ..Options::default() };
        let value = match extract(text, None, &options) {
            Outcome::Valid(extraction) => extraction.value,
            _ if text.is_empty() => {
                return self.reject_output("it is empty; the program has to write its result there, as JSON");
            }
            Outcome::NotFound { reason } => return self.reject_output(&reason),
            _ => return self.reject_output("the text is not one JSON document"),
        };
        let violations = self.contract().map(|contract| contract.violations(&value));
        match violations.filter(|violations| !violations.is_empty()) {
            Some(violations) => {
                self.usage.record_invalid_candidate(&value, &violations);
                let message = "The program's output did not match schema".to_owned();
                self.fail(RunErrorType::OutputSchemaValidationFailed, message, violations.lines());
            }
            None => self.finish_with_data(value),
        }
    }

    /// Fails the run because the output of the program is not a result.
    fn reject_output(&mut self, reason: &str) {
        let message = format!("the program's standard output is no result: {reason}");
        if self.contract().is_some() {
            let errors = vec![format!("$: {message}")];
            self.fail(RunErrorType::OutputSchemaValidationFailed, message, errors);
        } else {
            self.end(RunErrorType::ToolFailed, message);
        }
    }
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

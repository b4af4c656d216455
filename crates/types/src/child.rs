//! Child runs: agents that work for other agents.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{RunError, RunId, RunStatus, SessionId};

/// The description of an agent that another agent may delegate to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentCard {
    /// The agent's name.
    pub name: String,
    /// The agent's purpose, as in its blueprint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The JSON Schema of its parameters; `None` if they are a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_schema: Option<Value>,
    /// Whether the agent has its own output schema, which callers cannot override.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_output_schema: bool,
}

/// The way in which the caller of a run learns of its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionMode {
    /// The caller waits for the end of the run.
    Sync,
    /// The caller polls the run's status.
    #[default]
    AsyncPoll,
    /// The end of the run resumes the caller's session.
    AsyncCallback,
}

impl ExecutionMode {
    /// All modes.
    pub const ALL: [ExecutionMode; 3] =
        [ExecutionMode::Sync, ExecutionMode::AsyncPoll, ExecutionMode::AsyncCallback];

    /// Returns the mode with this name; `None` for unknown names.
    pub fn named(name: &str) -> Option<ExecutionMode> {
        ExecutionMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Returns the name in the journal and the API.
    pub fn name(self) -> &'static str {
        match self {
            ExecutionMode::Sync => "sync",
            ExecutionMode::AsyncPoll => "async_poll",
            ExecutionMode::AsyncCallback => "async_callback",
        }
    }
}

/// The end of a child run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildEnd {
    /// The name of the child's agent.
    pub agent_name: String,
    /// The child's session.
    pub child_session_id: SessionId,
    /// The child's run.
    pub child_run_id: RunId,
    /// The final status of the child's run.
    pub status: RunStatus,
    /// The result of a run without a contract. Beside `result_data`, a note about what the result lacks; `None` if it
    /// lacks nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_text: Option<String>,
    /// The result of a run with a contract; `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_data: Option<Value>,
    /// The error of a failed or stopped run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<RunError>>,
}

impl ChildEnd {
    /// Returns whether the child has a result.
    pub fn is_completed(&self) -> bool {
        self.status == RunStatus::Completed
    }

    /// Returns the result in the form that the parent's model reads: the JSON, else the text, else a note.
    pub fn result(&self) -> String {
        match (&self.result_data, &self.result_text) {
            (Some(data), note) => {
                let json = serde_json::to_string_pretty(data).unwrap_or_else(|_| data.to_string());
                match note {
                    Some(note) => format!("{json}\n\n{note}"),
                    None => json,
                }
            }
            (None, Some(text)) if !text.is_empty() => text.clone(),
            // JSON has one null: a result that is null reads back from the journal as an absent one.
            (None, None) if self.is_completed() => "null".to_owned(),
            _ => "(No result available)".to_owned(),
        }
    }

    /// Returns the error in the form that the parent's model reads.
    pub fn failure(&self) -> String {
        match &self.error {
            Some(error) => {
                let errors = error.validation_errors.iter().map(|error| format!("\n- {error}"));
                format!("{} ({}){}", error.message, error.kind.name(), errors.collect::<String>())
            }
            None => format!("the run ended without a result ({:?})", self.status).to_lowercase(),
        }
    }

    /// Returns the result or the error. A universal response that reports an error counts as an error.
    pub fn done(&self) -> Result<String, String> {
        if !self.is_completed() {
            return Err(self.failure());
        }
        let data = self.result_data.as_ref().unwrap_or(&Value::Null);
        if data["response_type"] != "error" || data["status"] != "error" {
            return Ok(self.result());
        }
        let message = data["error_details"]["error_message"].as_str().or(data["message"].as_str());
        Err(format!("it reported an error: {}", message.unwrap_or("it did not say which")))
    }

    fn section(&self) -> String {
        let section = if self.is_completed() {
            format!("## Child Result\n\n{}", self.result())
        } else {
            format!("## Error\n\n{}", self.failure())
        };
        // A child's text must not contain the tag that ends its message.
        section.replace("</agent-callback", "<\\/agent-callback")
    }

    fn status_name(&self) -> &'static str {
        match self.status {
            RunStatus::Completed => "completed",
            RunStatus::Stopped => "stopped",
            _ => "failed",
        }
    }
}

/// The message that resumes a parent when its children have ended.
#[derive(Debug, Clone, Copy)]
pub struct Callback<'a>(pub &'a [ChildEnd]);

impl fmt::Display for Callback<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.0.iter().any(|end| !end.is_completed());
        let instruction = match (failed, self.0.len()) {
            (false, 1) => "Please continue with the orchestration based on this result.",
            (false, _) => "Please continue with the orchestration based on these results.",
            (true, 1) => "Please handle this failure and continue with the orchestration.",
            (true, _) => "Please handle the failures and continue with the orchestration.",
        };
        if let [end] = self.0 {
            let (session, status) = (&end.child_session_id, end.status_name());
            return write!(
                formatter,
                "<agent-callback session=\"{session}\" status=\"{status}\">\n{}\n</agent-callback>\n\n{instruction}",
                end.section()
            );
        }
        let sections: Vec<String> = self
            .0
            .iter()
            .map(|end| {
                format!(
                    "### Child: {} (status: {})\n\n{}",
                    end.child_session_id,
                    end.status_name(),
                    end.section()
                )
            })
            .collect();
        write!(
            formatter,
            "<agent-callback type=\"aggregated\" count=\"{}\">\n{}\n</agent-callback>\n\n{instruction}",
            self.0.len(),
            sections.join("\n\n---\n\n")
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::RunErrorType;

    fn end(byte: u8, status: RunStatus) -> ChildEnd {
        ChildEnd {
            agent_name: "researcher".to_owned(),
            child_session_id: SessionId::from_random([byte; 6]),
            child_run_id: RunId::from_random([byte; 6]),
            status,
            result_text: None,
            result_data: None,
            error: None,
        }
    }

    #[test]
    fn result_prefers_data_over_text_over_note() {
        assert_eq!(end(1, RunStatus::Failed).result(), "(No result available)");
        let mut child = end(1, RunStatus::Completed);
        assert_eq!(child.result(), "null");
        child.result_text = Some("Done.".to_owned());
        assert_eq!(child.result(), "Done.");
        (child.result_text, child.result_data) = (None, Some(json!({"a": 1})));
        assert_eq!(child.result(), "{\n  \"a\": 1\n}");
        child.result_text = Some("Incomplete.".to_owned());
        assert_eq!(child.result(), "{\n  \"a\": 1\n}\n\nIncomplete.");
    }

    #[test]
    fn callback_of_one_or_several_children_has_documented_text() {
        let mut good = end(1, RunStatus::Completed);
        good.result_text = Some("Done.".to_owned());
        assert_eq!(
            Callback(std::slice::from_ref(&good)).to_string(),
            "<agent-callback session=\"ses_010101010101\" status=\"completed\">\n## Child Result\n\nDone.\n\
             </agent-callback>\n\nPlease continue with the orchestration based on this result."
        );
        let mut bad = end(2, RunStatus::Failed);
        bad.error = Some(Box::new(RunError {
            kind: RunErrorType::Timeout,
            message: "too slow".to_owned(),
            validation_errors: Vec::new(),
            last_output: None,
            calls: 1,
            retry_count: 0,
            call_error: None,
            response: None,
        }));
        assert_eq!(
            Callback(std::slice::from_ref(&bad)).to_string(),
            "<agent-callback session=\"ses_020202020202\" status=\"failed\">\n## Error\n\ntoo slow (timeout)\n\
             </agent-callback>\n\nPlease handle this failure and continue with the orchestration."
        );
        assert_eq!(
            Callback(&[good, bad]).to_string(),
            "<agent-callback type=\"aggregated\" count=\"2\">\n\
             ### Child: ses_010101010101 (status: completed)\n\n## Child Result\n\nDone.\n\n---\n\n\
             ### Child: ses_020202020202 (status: failed)\n\n## Error\n\ntoo slow (timeout)\n\
             </agent-callback>\n\nPlease handle the failures and continue with the orchestration."
        );
    }
}

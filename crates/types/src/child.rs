//! Agents that work for other agents.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{RunError, RunId, RunStatus, SessionId};

/// What an agent is told of another one that it may delegate to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentCard {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What its parameters must satisfy; none where they are a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_schema: Option<Value>,
    /// Whether it has an output schema of its own, which nobody can replace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_output_schema: bool,
}

/// How whoever starts a run learns of its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionMode {
    /// It waits.
    Sync,
    /// It asks.
    #[default]
    AsyncPoll,
    /// Its session is resumed.
    AsyncCallback,
}

impl ExecutionMode {
    /// Every mode.
    pub const ALL: [ExecutionMode; 3] =
        [ExecutionMode::Sync, ExecutionMode::AsyncPoll, ExecutionMode::AsyncCallback];

    /// The mode of a name.
    pub fn named(name: &str) -> Option<ExecutionMode> {
        ExecutionMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The name in the journal and the API.
    pub fn name(self) -> &'static str {
        match self {
            ExecutionMode::Sync => "sync",
            ExecutionMode::AsyncPoll => "async_poll",
            ExecutionMode::AsyncCallback => "async_callback",
        }
    }
}

/// How a child's run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildEnd {
    /// The child.
    pub agent_name: String,
    /// Its session.
    pub child_session_id: SessionId,
    /// Its run.
    pub child_run_id: RunId,
    /// How the run stands.
    pub status: RunStatus,
    /// The text, for runs without a contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_text: Option<String>,
    /// The JSON, for runs with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_data: Option<Value>,
    /// What went wrong, if something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<RunError>>,
}

impl ChildEnd {
    /// Whether there is a result.
    pub fn is_completed(&self) -> bool {
        self.status == RunStatus::Completed
    }

    /// The result as its parent reads it: the JSON, else the text, else a word that there is none.
    pub fn result(&self) -> String {
        match (&self.result_data, &self.result_text) {
            (Some(data), _) => serde_json::to_string_pretty(data).unwrap_or_else(|_| data.to_string()),
            (None, Some(text)) if !text.is_empty() => text.clone(),
            _ => "(No result available)".to_owned(),
        }
    }

    /// Why there is no result.
    pub fn failure(&self) -> String {
        match &self.error {
            Some(error) => {
                let errors = error.validation_errors.iter().map(|error| format!("\n- {error}"));
                format!("{} ({}){}", error.message, error.kind.name(), errors.collect::<String>())
            }
            None => format!("the run ended without a result ({:?})", self.status).to_lowercase(),
        }
    }

    /// The result, or why there is none. A universal response that reports an error is none, however well formed it is.
    pub fn done(&self) -> Result<String, String> {
        if !self.is_completed() {
            return Err(self.failure());
        }
        let data = self.result_data.as_ref().unwrap_or(&Value::Null);
        if data["response_type"] != "error" || data["status"] != "error" {
            return Ok(self.result());
        }
        let told = data["error_details"]["error_message"].as_str().or(data["message"].as_str());
        Err(format!("it reported an error: {}", told.unwrap_or("it did not say which")))
    }

    fn section(&self) -> String {
        let section = match self.is_completed() {
            true => format!("## Child Result\n\n{}", self.result()),
            false => format!("## Error\n\n{}", self.failure()),
        };
        // What a child says must not look like the end of its message.
        section.replace("</agent-callback", "<\\/agent-callback")
    }

    fn word(&self) -> &'static str {
        match self.status {
            RunStatus::Completed => "completed",
            RunStatus::Stopped => "stopped",
            _ => "failed",
        }
    }
}

/// The message that resumes a parent when children have ended.
#[derive(Debug, Clone, Copy)]
pub struct Callback<'a>(pub &'a [ChildEnd]);

impl fmt::Display for Callback<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.0.iter().any(|end| !end.is_completed());
        let please = match (failed, self.0.len()) {
            (false, 1) => "Please continue with the orchestration based on this result.",
            (false, _) => "Please continue with the orchestration based on these results.",
            (true, 1) => "Please handle this failure and continue with the orchestration.",
            (true, _) => "Please handle the failures and continue with the orchestration.",
        };
        if let [end] = self.0 {
            let (session, status) = (&end.child_session_id, end.word());
            return write!(
                formatter,
                "<agent-callback session=\"{session}\" status=\"{status}\">\n{}\n</agent-callback>\n\n{please}",
                end.section()
            );
        }
        let sections: Vec<String> = self
            .0
            .iter()
            .map(|end| {
                format!("### Child: {} (status: {})\n\n{}", end.child_session_id, end.word(), end.section())
            })
            .collect();
        write!(
            formatter,
            "<agent-callback type=\"aggregated\" count=\"{}\">\n{}\n</agent-callback>\n\n{please}",
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
    fn a_parent_reads_data_then_text_then_that_there_is_nothing() {
        let mut child = end(1, RunStatus::Completed);
        assert_eq!(child.result(), "(No result available)");
        child.result_text = Some("Done.".to_owned());
        assert_eq!(child.result(), "Done.");
        child.result_data = Some(json!({"a": 1}));
        assert_eq!(child.result(), "{\n  \"a\": 1\n}");
    }

    #[test]
    fn one_child_and_several_call_back_in_the_documented_words() {
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

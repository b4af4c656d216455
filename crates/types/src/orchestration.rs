//! Orchestration: plans, their subtasks, and clarity scoring.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The entry in an agent's list of agents that allows all agents of the project.
pub const ALL_AGENTS: &str = "*";

/// The heading of the task that a specialist's own task is part of.
pub const PART_OF_HEADING: &str = "# What It Is Part Of";

/// The heading of the results that a specialist builds on.
pub const RESULTS_HEADING: &str = "# Results To Build On";

/// The heading of the reason why an earlier attempt of a specialist failed.
pub const FAILED_ATTEMPT_HEADING: &str = "# An Earlier Attempt Failed";

/// The headings of what an orchestrator adds to the task of a specialist.
pub const CONTEXT_HEADINGS: [&str; 3] = [PART_OF_HEADING, RESULTS_HEADING, FAILED_ATTEMPT_HEADING];

/// A part of a task that one agent performs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subtask {
    /// The id, unique inside its plan.
    pub id: String,
    /// The instructions, complete for an agent that knows nothing else about the task.
    pub description: String,
    /// The name of the agent that performs it.
    pub agent: String,
    /// The ids of the subtasks that must be finished first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// The order among subtasks that are ready: lower numbers start first.
    pub priority: i64,
}

/// The outcome of a subtask, in the receipt or the salvage of its orchestration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubtaskOutcome {
    /// The id of the subtask.
    pub id: String,
    /// The name of the agent that performed it, or should have.
    pub agent: String,
    /// The instructions.
    pub description: String,
    /// How far the subtask came.
    pub status: SubtaskOutcomeStatus,
    /// The result of a completed subtask: JSON, or text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The reason why a subtask is not completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a subtask came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubtaskOutcomeStatus {
    /// The subtask has a result.
    Completed,
    /// The subtask failed on its last try.
    Failed,
    /// The subtask did not start, or the run ended before the subtask did.
    NotBegun,
}

impl SubtaskOutcome {
    /// Returns the reason why the subtask is not completed, in one line with its id and agent. `None` if it is
    /// completed.
    pub fn problem(&self) -> Option<String> {
        let SubtaskOutcome { id, agent, status, error, .. } = self;
        let what = match status {
            SubtaskOutcomeStatus::Completed => return None,
            SubtaskOutcomeStatus::Failed => "failed",
            SubtaskOutcomeStatus::NotBegun => "did not begin",
        };
        let reason = error.as_deref().unwrap_or("the reason is unknown").replace("\n- ", "; ");
        Some(format!("subtask '{id}' ({agent}) {what}: {reason}"))
    }
}

/// The clarity that answers must reach, and how often the author is asked again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clarity {
    /// The lowest score, out of 100, that counts as clear.
    #[serde(default = "Clarity::default_threshold")]
    pub threshold: u8,
    /// The most answers scored on one rung. After the last one the run escalates to the next tier or fails.
    #[serde(default = "Clarity::default_rounds")]
    pub max_rounds: u8,
    /// The name of the agent that scores.
    #[serde(default = "Clarity::default_agent")]
    pub agent: String,
}

impl Clarity {
    /// The default threshold, out of 100.
    pub const THRESHOLD: u8 = 85;

    /// The default and highest number of rounds.
    pub const ROUNDS_MAX: u8 = 5;

    fn default_threshold() -> u8 {
        Clarity::THRESHOLD
    }

    fn default_rounds() -> u8 {
        Clarity::ROUNDS_MAX
    }

    fn default_agent() -> String {
        "clarity".to_owned()
    }
}

impl Default for Clarity {
    fn default() -> Self {
        Clarity {
            threshold: Clarity::THRESHOLD,
            max_rounds: Clarity::ROUNDS_MAX,
            agent: Clarity::default_agent(),
        }
    }
}

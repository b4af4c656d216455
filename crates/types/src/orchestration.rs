//! Work that is taken apart: plans, their subtasks, and how clear an answer has to be.

use serde::{Deserialize, Serialize};

/// What stands for all agents of the project in an agent's list of others.
pub const EVERYBODY: &str = "*";

/// A part of a task that one agent does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subtask {
    /// What it is called by in its plan.
    pub id: String,
    /// What is to be done, for an agent that knows nothing else of the task.
    pub description: String,
    /// The agent that does it.
    pub agent: String,
    /// The subtasks that have to be done before, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// Which of several that could begin begins first: the lower number.
    pub priority: i64,
}

/// How clear an answer has to be before it is taken, and how often its author is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clarity {
    /// The score from which on it is clear, of 100.
    #[serde(default = "Clarity::default_threshold")]
    pub threshold: u8,
    /// The most answers that are scored before the next tier goes on, or the run fails.
    #[serde(default = "Clarity::default_rounds")]
    pub max_rounds: u8,
    /// The agent that scores.
    #[serde(default = "Clarity::default_agent")]
    pub agent: String,
}

impl Clarity {
    /// The score that counts as clear where nothing is said.
    pub const THRESHOLD: u8 = 85;

    /// The most rounds.
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

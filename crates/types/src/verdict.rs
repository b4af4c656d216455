//! How the result of a run was reached, in one word.

use serde::{Deserialize, Serialize};

/// How a completed run with a contract reached its result. A run has the last verdict of this list that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    /// The first reply satisfied the contract as it was.
    FirstPass,
    /// The first reply satisfied the contract after repairs.
    Repaired,
    /// A reply to a retry satisfied the contract.
    Retried,
    /// A further tier satisfied the contract.
    Escalated,
}

impl RunVerdict {
    /// All verdicts.
    pub const ALL: [RunVerdict; 4] =
        [RunVerdict::FirstPass, RunVerdict::Repaired, RunVerdict::Retried, RunVerdict::Escalated];

    /// Returns the verdict with this name; `None` for unknown names.
    pub fn named(name: &str) -> Option<RunVerdict> {
        RunVerdict::ALL.into_iter().find(|verdict| verdict.name() == name)
    }

    /// Returns the name in the API.
    pub fn name(self) -> &'static str {
        match self {
            RunVerdict::FirstPass => "first_pass",
            RunVerdict::Repaired => "repaired",
            RunVerdict::Retried => "retried",
            RunVerdict::Escalated => "escalated",
        }
    }
}

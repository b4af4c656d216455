//! The outcome of an extraction.

use serde_json::Value;
use slipform_schema::{Schema, Violation, Violations, universal};

use crate::repair::Repair;

/// The outcome of an extraction.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A value that satisfies the schema, or any value if no schema was given.
    Valid(Extraction),
    /// The best candidate does not satisfy the schema, or needs repairs that the mode does not allow.
    Invalid {
        /// The candidate closest to the schema, with the repairs made to parse it.
        candidate: Extraction,
        /// The candidate's violations; never empty.
        violations: Violations,
    },
    /// The text contains no JSON.
    NotFound {
        /// The reason, in one sentence without a full stop.
        reason: String,
    },
    /// The text is longer than the options allow.
    TooLong {
        /// The length of the text, in bytes.
        bytes: usize,
        /// The limit from the options, in bytes.
        limit: usize,
    },
}

/// A value, and the repairs that were made to obtain it from the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Extraction {
    /// The parsed value.
    pub value: Value,
    /// Every repair, in the order in which it was made.
    pub repairs: Vec<Repair>,
}

impl Outcome {
    /// Returns the value of a valid outcome; `None` otherwise.
    pub fn valid(&self) -> Option<&Value> {
        match self {
            Outcome::Valid(extraction) => Some(&extraction.value),
            _ => None,
        }
    }

    /// Applies the rules of the universal response that its schema cannot express. A valid outcome that
    /// violates them becomes invalid. The agent is unknown here, so any response type is accepted.
    #[must_use]
    pub fn with_extra_rules(self, schema: Option<&Schema>) -> Outcome {
        let (Outcome::Valid(candidate), Some(schema)) = (&self, schema) else { return self };
        let violations = universal::extra_rules(schema, &candidate.value, None);
        match self {
            Outcome::Valid(candidate) if !violations.is_empty() => Outcome::Invalid { candidate, violations },
            other => other,
        }
    }
}

pub(crate) fn violation(path: String, message: String) -> Violation {
    Violation { path, message, schema_path: String::new(), value: Value::Null }
}

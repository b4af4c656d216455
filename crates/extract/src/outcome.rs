//! How an extraction can end.

use serde_json::Value;
use slipform_schema::{Schema, Violation, Violations, universal};

use crate::repair::Repair;

/// How an extraction ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A value that satisfies the schema, or any value where there is no schema.
    Valid(Extraction),
    /// The best candidate found, and why it is not good enough.
    Invalid {
        /// The candidate closest to the schema, with the repairs that reading it took.
        candidate: Extraction,
        /// What is wrong with it.
        violations: Violations,
    },
    /// The text holds no JSON.
    NotFound {
        /// Why, in one sentence.
        reason: String,
    },
    /// The text is longer than the options allow.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
}

/// A value and the changes between the text and it.
#[derive(Debug, Clone, PartialEq)]
pub struct Extraction {
    /// The value.
    pub value: Value,
    /// Every change, in the order in which it was made.
    pub repairs: Vec<Repair>,
}

impl Outcome {
    /// The value, if the outcome is a success.
    pub fn valid(&self) -> Option<&Value> {
        match self {
            Outcome::Valid(extraction) => Some(&extraction.value),
            _ => None,
        }
    }

    /// The same, held to what goes beyond the schema that it was extracted by: universal responses have rules of their
    /// own. Whose response it is cannot be told here, so that any kind will do.
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

//! Violations: differences between a value and its schema, worded so that a person or a model can act on
//! them.

use serde::Serialize;
use serde_json::Value;

/// The most violations reported for one value. Models follow only short feedback; [`Violations::more`] counts
/// the rest.
pub const VIOLATIONS_MAX: usize = 20;

/// One difference between a value and its schema.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Violation {
    /// JSONPath of the invalid value, such as `$.issues[0].severity`. For a missing property, the path it
    /// should have.
    pub path: String,
    /// The problem and the expected value, as one lower-case sentence without a full stop.
    pub message: String,
    /// JSON Pointer of the violated keyword inside the schema; empty for rules that no keyword expresses.
    pub schema_path: String,
    /// The value at `path`; null for a missing property.
    pub value: Value,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.path, self.message)
    }
}

/// The violations of one value in document order, capped at [`VIOLATIONS_MAX`].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Violations {
    /// At most [`VIOLATIONS_MAX`] violations.
    pub list: Vec<Violation>,
    /// The number of violations left out of `list`.
    pub more: usize,
}

impl Violations {
    /// Returns whether the value is valid.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the number of violations, including those left out of the list.
    pub fn total(&self) -> usize {
        self.list.len() + self.more
    }

    /// Returns each violation as `$.path: message`, and a last line that counts those left out.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.list.iter().map(ToString::to_string).collect();
        if self.more > 0 {
            lines.push(format!("$: … and {} more violations", self.more));
        }
        lines
    }

    /// Keeps the first [`VIOLATIONS_MAX`] violations and counts the rest.
    pub fn capped(mut all: Vec<Violation>) -> Violations {
        let more = all.len().saturating_sub(VIOLATIONS_MAX);
        all.truncate(VIOLATIONS_MAX);
        Violations { list: all, more }
    }
}

//! What is wrong with a value, in words that a person or a model can act on.

use serde::Serialize;
use serde_json::Value;

/// The most violations that are reported at once. Feedback to a model has to stay short to be
/// followed; [`Violations::more`] says how many were left out.
pub const VIOLATIONS_MAX: usize = 20;

/// One way in which a value does not satisfy its schema.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Violation {
    /// JSONPath of the offending place: `$.issues[0].severity`. A missing property is reported at
    /// the path it should have.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
    /// JSON Pointer of the keyword inside the schema; empty where no keyword says it.
    pub schema_path: String,
    /// The value found there; null for a missing property.
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
    /// The first violations.
    pub list: Vec<Violation>,
    /// How many more there are.
    pub more: usize,
}

impl Violations {
    /// Whether there is nothing wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many violations there are, including those left out of the list.
    pub fn total(&self) -> usize {
        self.list.len() + self.more
    }

    /// Each violation as `$.path: message`, and a last line when some were left out.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.list.iter().map(ToString::to_string).collect();
        if self.more > 0 {
            lines.push(format!("$: … and {} more violations", self.more));
        }
        lines
    }

    /// The first of all that were found, and how many more there are.
    pub fn capped(mut all: Vec<Violation>) -> Violations {
        let more = all.len().saturating_sub(VIOLATIONS_MAX);
        all.truncate(VIOLATIONS_MAX);
        Violations { list: all, more }
    }
}

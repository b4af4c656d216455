//! What is wrong with an agent, and where.

use std::fmt;

use serde::Serialize;

/// One thing that is wrong, or that looks wrong, in an agent's definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// JSONPath inside the definition, as its author wrote it.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
    /// The line in the file, where the format tells; counted from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl Problem {
    /// A problem whose line is not known (yet).
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem { path: path.into(), message: message.into(), line: None }
    }

    /// The problem under `prefix`: `$.type` inside `$.output_schema` is `$.output_schema.type`.
    pub(crate) fn under(prefix: &str, path: &str, message: impl Into<String>) -> Problem {
        Problem::new(format!("{prefix}{}", path.strip_prefix('$').unwrap_or(path)), message)
    }

    /// The problem of a schema that does not compile, with the schema's key before its path.
    pub(crate) fn of_schema(prefix: &str, error: &slipform_schema::Error) -> Problem {
        use slipform_schema::Error as E;
        let text = error.to_string();
        match error {
            E::Invalid { path, .. } | E::Reference { path, .. } | E::Cycle { path } => {
                let message = text.strip_prefix(&format!("{path}: ")).unwrap_or(&text);
                Problem::under(prefix, path, message)
            }
            E::TooLarge { .. } => Problem::new(prefix, text),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(formatter, "line {line}: ")?;
        }
        write!(formatter, "{}: {}", self.path, self.message)
    }
}

/// The most problems that are told at once, and the most warnings. More would not be read, and finding
/// the lines of a hundred thousand of them would take minutes; [`Problems::more`] says how many were
/// left out.
pub const PROBLEMS_MAX: usize = 100;

/// What is wrong with an agent's definition, in the order of the text where that has lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problems {
    /// The problems, at most [`PROBLEMS_MAX`].
    pub list: Vec<Problem>,
    /// How many more there are.
    pub more: usize,
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems { list: vec![problem], more: 0 }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{problem}")?;
        }
        if self.more > 0 {
            write!(formatter, "\n… and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

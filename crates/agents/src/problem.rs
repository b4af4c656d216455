//! Problems of agent definitions, with path and line.

use std::fmt;

use serde::Serialize;

/// A problem or warning in the definition of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The JSONPath in the definition, as written by its author.
    pub path: String,
    /// The problem and how to fix it.
    pub message: String,
    /// The line in the file, starting at 1. `None` for formats without line information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl Problem {
    /// Creates a problem without a line.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem { path: path.into(), message: message.into(), line: None }
    }

    /// Creates a problem under `prefix`: `$.type` inside `$.output_schema` is
    /// `$.output_schema.type`.
    pub(crate) fn under(prefix: &str, path: &str, message: impl Into<String>) -> Problem {
        Problem::new(format!("{prefix}{}", path.strip_prefix('$').unwrap_or(path)), message)
    }

    /// Converts the error of a schema that does not compile, with `prefix` before its path.
    pub(crate) fn of_schema(prefix: &str, error: &slipform_schema::Error) -> Problem {
        use slipform_schema::Error as E;
        let text = error.to_string();
        match error {
            E::Invalid { path, .. }
            | E::Reference { path, .. }
            | E::Cycle { path }
            | E::TooMuchMemory { path, .. } => {
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

/// The maximum number of problems, and of warnings, that are reported. Locating the lines of very
/// many problems would take minutes; [`Problems::more`] counts the rest.
pub const PROBLEMS_MAX: usize = 100;

/// The problems of a definition, sorted by line if the format has lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problems {
    /// At most [`PROBLEMS_MAX`] problems.
    pub list: Vec<Problem>,
    /// The number of further problems.
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

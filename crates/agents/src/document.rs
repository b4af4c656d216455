//! A text as a JSON value, with the lines of its parts where the format tells them.

mod json;
mod scalar;
mod yaml;

use std::path::Path;

use formwork_schema::{Segment, json_path};
use serde_json::Value;

use crate::Problem;

/// The formats of agent files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2: `yes`, `no`, `on` and `off` are text.
    Yaml,
    /// JSON.
    Json,
}

impl Format {
    /// The format that a file's name says, if it is one of ours.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Format::Yaml),
            "json" => Some(Format::Json),
            _ => None,
        }
    }
}

/// A text that could be read.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) value: Value,
    lines: Option<Lines>,
}

/// The line of a part and of everything in it, in the order of the value.
#[derive(Debug, Clone)]
struct Lines {
    line: usize,
    children: Vec<Lines>,
}

impl Document {
    /// Reads a text, or says where it cannot be read.
    pub(crate) fn read(text: &str, format: Format) -> Result<Document, Problem> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match format {
            Format::Yaml => yaml::read(text).map(|(value, lines)| Document { value, lines: Some(lines) }),
            Format::Json => json::read(text).map(|value| Document { value, lines: None }),
        }
    }

    /// Says for each problem on which line its place is, or the closest place that exists.
    pub(crate) fn locate(&self, problems: &mut [Problem]) {
        let Some(lines) = &self.lines else { return };
        for problem in problems.iter_mut().filter(|problem| problem.line.is_none()) {
            problem.line = Some(line_of(&self.value, lines, problem.path.strip_prefix('$').unwrap_or("")));
        }
    }
}

fn line_of(mut value: &Value, mut lines: &Lines, mut rest: &str) -> usize {
    loop {
        let step = match value {
            Value::Object(map) => map.iter().zip(&lines.children).find_map(|((key, child), lines)| {
                let rest = after(rest, Segment::Key(key.clone()))?;
                Some((child, lines, rest))
            }),
            Value::Array(items) => {
                items.iter().zip(&lines.children).enumerate().find_map(|(index, (child, lines))| {
                    Some((child, lines, after(rest, Segment::Index(index))?))
                })
            }
            _ => None,
        };
        match step {
            Some(next) => (value, lines, rest) = next,
            None => return lines.line,
        }
    }
}

/// What follows a segment at the start of a path.
fn after(path: &str, segment: Segment) -> Option<&str> {
    let step = json_path(&[segment]);
    let rest = path.strip_prefix(step.strip_prefix('$')?)?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

//! Parses a text to a JSON value and, for YAML, keeps the line of every part.

mod json;
mod scalar;
mod yaml;

use std::path::Path;

use serde_json::Value;
use slipform_schema::{Segment, json_path};

use crate::Problem;

/// The format of an agent file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2: `yes`, `no`, `on` and `off` are text.
    Yaml,
    /// JSON. Duplicate keys are refused.
    Json,
}

impl Format {
    /// Returns the format for the extension of a file, or `None` if it is not supported.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Format::Yaml),
            "json" => Some(Format::Json),
            _ => None,
        }
    }
}

/// A parsed text.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) value: Value,
    lines: Option<Lines>,
}

/// The line of a value and of its children, in the order of the value.
#[derive(Debug, Clone)]
struct Lines {
    line: usize,
    children: Vec<Lines>,
}

impl Document {
    /// Parses a text, or returns the problem with its position.
    pub(crate) fn read(text: &str, format: Format) -> Result<Document, Problem> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match format {
            Format::Yaml => yaml::read(text).map(|(value, lines)| Document { value, lines: Some(lines) }),
            Format::Json => json::read(text).map(|value| Document { value, lines: None }),
        }
    }

    /// Sets the line of each problem, using the closest existing parent of its path, and sorts the
    /// problems by line.
    pub(crate) fn locate(&self, problems: &mut [Problem]) {
        let Some(lines) = &self.lines else { return };
        for problem in problems.iter_mut().filter(|problem| problem.line.is_none()) {
            problem.line = Some(line_of(&self.value, lines, problem.path.strip_prefix('$').unwrap_or("")));
        }
        problems.sort_by_key(|problem| problem.line);
    }
}

fn line_of(mut value: &Value, mut lines: &Lines, mut rest: &str) -> usize {
    loop {
        let step = match value {
            Value::Object(map) => map.iter().zip(&lines.children).find_map(|((key, child), lines)| {
                // Skips most keys without formatting them as a path.
                let is_possible =
                    rest.starts_with("['") || rest.get(1..).is_some_and(|rest| rest.starts_with(key));
                let rest = is_possible.then(|| strip_segment(rest, Segment::Key(key.clone()))).flatten()?;
                Some((child, lines, rest))
            }),
            Value::Array(items) => {
                items.iter().zip(&lines.children).enumerate().find_map(|(index, (child, lines))| {
                    Some((child, lines, strip_segment(rest, Segment::Index(index))?))
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

/// Strips a segment from the start of a path and returns the rest.
fn strip_segment(path: &str, segment: Segment) -> Option<&str> {
    let step = json_path(&[segment]);
    let rest = path.strip_prefix(step.strip_prefix('$')?)?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(|float| json!(float)),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_parses_equally_as_yaml_and_json(value in values()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value)?] {
                let yaml = Document::read(&text, Format::Yaml);
                prop_assert_eq!(yaml.map(|document| document.value), Ok(value.clone()), "{}", text);
                let json = Document::read(&text, Format::Json);
                prop_assert_eq!(json.map(|document| document.value), Ok(value.clone()));
            }
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in "[-a:?&*!|>'\"%@`,{}\\[\\]# \t\n\r~0-9.\\\\é<]{0,60}") {
            for format in [Format::Yaml, Format::Json] {
                if let Ok(document) = Document::read(&text, format) {
                    let mut problems = [Problem::new("$.a.b[0]", "x")];
                    document.locate(&mut problems);
                }
            }
        }
    }
}

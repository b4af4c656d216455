//! `fs:read`: reads lines of a text file.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_types::ToolDefinition;

use super::RESULT_CHARACTERS_MAX;
use crate::Error;
use crate::definition::define;
use crate::project::{Cancellation, Project, ProjectPath, cut, is_binary, parse_arguments};
use crate::result::structured;

pub(super) const NAME: &str = "fs:read";

#[derive(Deserialize)]
struct Arguments {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct Output {
    path: String,
    content: String,
    first_line: usize,
    last_line: usize,
    total_lines: usize,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

pub(super) fn definition() -> ToolDefinition {
    define(
        NAME,
        "Reads a text file of the project. Long files come in parts: go on with offset = last_line + 1.",
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path"],
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "File, relative to the project, such as src/main.rs"},
                "offset": {"type": "integer", "minimum": 1, "description": "First line to read, counted from 1. Default: 1"},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read. Default: all"},
            },
        }),
        Some(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path", "content", "first_line", "last_line", "total_lines", "truncated"],
            "properties": {
                "path": {"type": "string"},
                "content": {"type": "string", "description": "The lines as they are in the file"},
                "first_line": {"type": "integer", "minimum": 1},
                "last_line": {"type": "integer", "minimum": 0},
                "total_lines": {"type": "integer", "minimum": 0},
                "truncated": {"type": "boolean", "description": "The file has more lines after last_line"},
                "note": {"type": "string", "description": "How to go on"},
            },
        })),
    )
}

pub(super) fn run(project: &Project, arguments: &Value, _cancel: &Cancellation) -> Result<Value, Error> {
    let Arguments { path, offset, limit } = parse_arguments(arguments)?;
    let path = project.locate(&path)?;
    let bytes = project.read(&path)?;
    project.record_content(&path, &bytes);
    let text = text(&path, bytes)?;
    let total_lines = text.split_inclusive('\n').count();
    let first_line = offset.unwrap_or(1).max(1);
    if first_line > total_lines.max(1) {
        return Err(Error::Arguments(format!(
            "'{}' has {total_lines} lines; offset {first_line} is past its end",
            path.as_str()
        )));
    }
    let mut content = String::new();
    let mut left = RESULT_CHARACTERS_MAX;
    let mut last_line = first_line - 1;
    let mut note = None;
    for line in text.split_inclusive('\n').skip(first_line - 1).take(limit.unwrap_or(usize::MAX)) {
        let (part, is_cut) = cut(line, left);
        if is_cut && !content.is_empty() {
            break;
        }
        content.push_str(part);
        left = left.saturating_sub(part.chars().count());
        last_line += 1;
        if is_cut {
            note =
                Some(format!("line {last_line} has more than {RESULT_CHARACTERS_MAX} characters and is cut"));
            break;
        }
    }
    let truncated = last_line < total_lines || note.is_some();
    if note.is_none() && truncated {
        note = Some(format!(
            "lines {first_line} to {last_line} of {total_lines}; go on with offset {}",
            last_line + 1
        ));
    }
    structured(&Output {
        path: path.as_str().to_owned(),
        content,
        first_line,
        last_line,
        total_lines,
        truncated,
        note,
    })
}

/// Returns a file's content as text, or an error for binary and non-UTF-8 files.
pub(crate) fn text(path: &ProjectPath, bytes: Vec<u8>) -> Result<String, Error> {
    let size = bytes.len();
    if is_binary(&bytes) {
        return Err(path.refused(format!("is a binary file of {size} bytes; only text can be read")));
    }
    String::from_utf8(bytes)
        .map_err(|_| path.refused(format!("is not UTF-8 text ({size} bytes); only UTF-8 text can be read")))
}

//! `fs:edit`: replaces a text in a file.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_types::ToolDefinition;

use super::read::text;
use crate::Error;
use crate::definition::define;
use crate::project::{Cancellation, FILE_BYTES_MAX, Project, ProjectPath, parse_arguments};
use crate::result::structured;

pub(super) const NAME: &str = "fs:edit";

/// Maximum number of line numbers in an error message.
const LINES_NAMED_MAX: usize = 5;

/// Number of attempts when another program writes to the file at the same time. After the last one the call
/// fails.
const TRIES_MAX: usize = 5;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    old_text: String,
    new_text: String,
    replace_all: Option<bool>,
}

#[derive(Serialize)]
struct Output {
    path: String,
    replacements: usize,
    first_line: usize,
}

pub(super) fn definition() -> ToolDefinition {
    define(
        NAME,
        "Replaces a text in a file of the project. The old text must be exactly as in the file, with its spaces, and occur once.",
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path", "old_text", "new_text"],
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "File, relative to the project"},
                "old_text": {"type": "string", "minLength": 1, "description": "Text to replace, with enough lines around it to occur once"},
                "new_text": {"type": "string", "description": "Text to put there"},
                "replace_all": {"type": "boolean", "description": "Replace it wherever it occurs. Default: false"},
            },
        }),
        Some(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path", "replacements", "first_line"],
            "properties": {
                "path": {"type": "string"},
                "replacements": {"type": "integer", "minimum": 1},
                "first_line": {"type": "integer", "minimum": 1, "description": "Line of the first replacement"},
            },
        })),
    )
}

pub(super) fn run(project: &Project, arguments: &Value, cancel: &Cancellation) -> Result<Value, Error> {
    let Arguments { path, old_text, new_text, replace_all } = parse_arguments(arguments)?;
    let path = project.locate(&path)?;
    if old_text.is_empty() || old_text == new_text {
        return Err(Error::Arguments(
            "old_text is empty or the same as new_text; give the text to replace and another one".to_owned(),
        ));
    }
    let target = project.write_target(&path, false, cancel)?;
    for _ in 0..TRIES_MAX {
        let (bytes, version) = target.read()?;
        project.check_edit(&path, &bytes)?;
        let content = text(&path, bytes)?;
        let (changed, output) = replaced(&path, &content, &old_text, &new_text, replace_all == Some(true))?;
        let permissions = target.existing()?.map(|metadata| metadata.permissions());
        if target.replace(changed.as_bytes(), permissions, Some(&version), cancel)? {
            project.record_content(&path, changed.as_bytes());
            return structured(&output);
        }
    }
    Err(path.refused("is not changed: another program keeps writing to it; try again later"))
}

/// Returns the content with the text replaced, and the call's result.
fn replaced(
    path: &ProjectPath,
    content: &str,
    old_text: &str,
    new_text: &str,
    is_everywhere: bool,
) -> Result<(String, Output), Error> {
    let found: Vec<usize> = content.match_indices(old_text).map(|(start, _)| start).collect();
    let Some(first) = found.first() else {
        return Err(missing(path, content, old_text));
    };
    if found.len() > 1 && !is_everywhere {
        return Err(path.refused(format!(
            "is not changed: old_text occurs {} times, at {}; give more lines around it, or set replace_all",
            found.len(),
            lines(content, &found)
        )));
    }
    // Check the size before replacing: a short text that occurs often could exceed the available memory.
    let kept = (content.len() - found.len() * old_text.len()) as u64;
    let size = (found.len() as u64).saturating_mul(new_text.len() as u64).saturating_add(kept);
    if size > FILE_BYTES_MAX {
        return Err(path.refused(format!(
            "is not changed: it would have {size} bytes, and {FILE_BYTES_MAX} are the most; put less text there"
        )));
    }
    let first_line = line_of(content, *first);
    let output = Output { path: path.as_str().to_owned(), replacements: found.len(), first_line };
    Ok((content.replace(old_text, new_text), output))
}

/// Explains why `old_text` was not found, and where it occurs with different whitespace.
fn missing(path: &ProjectPath, content: &str, old_text: &str) -> Error {
    let (dense, starts) = without_whitespace(content);
    let (wanted, _) = without_whitespace(old_text);
    let almost: Vec<usize> = if wanted.is_empty() {
        Vec::new()
    } else {
        dense.match_indices(&wanted).filter_map(|(start, _)| starts.get(start).copied()).collect()
    };
    path.refused(if almost.is_empty() {
        "is not changed: old_text does not occur in it; read the file again and copy the text exactly".to_owned()
    } else {
        let endings =
            if content.contains("\r\n") && !old_text.contains('\r') { ", whose lines end in \\r\\n" } else { "" };
        format!(
            "is not changed: old_text does not occur in it exactly; with other whitespace it does, at {}{endings}: \
             copy it from there with its spaces, tabs and line ends",
            lines(content, &almost)
        )
    })
}

/// Removes whitespace. Also returns the original offset of each remaining byte.
fn without_whitespace(text: &str) -> (String, Vec<usize>) {
    let mut dense = String::with_capacity(text.len());
    let mut starts = Vec::with_capacity(text.len());
    for (start, character) in text.char_indices().filter(|(_, character)| !character.is_whitespace()) {
        dense.push(character);
        starts.resize(dense.len(), start);
    }
    (dense, starts)
}

fn line_of(content: &str, start: usize) -> usize {
    content[..start].matches('\n').count() + 1
}

fn lines(content: &str, starts: &[usize]) -> String {
    let mut named: Vec<String> = starts
        .iter()
        .take(LINES_NAMED_MAX)
        .map(|start| format!("line {}", line_of(content, *start)))
        .collect();
    if starts.len() > LINES_NAMED_MAX {
        named.push("…".to_owned());
    }
    named.join(", ")
}

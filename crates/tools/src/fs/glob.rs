//! `fs:glob`: finds files by a path pattern.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_types::ToolDefinition;

use super::globs::{Globs, PATTERN_CHARACTERS_MAX};
use crate::Error;
use crate::definition::define;
use crate::project::{Cancellation, EntryKind, Project, Walk, WalkEntry, parse_arguments};
use crate::result::structured;

pub(super) const NAME: &str = "fs:glob";

/// Maximum number of files in one result, to spare the model's context. The rest is omitted and the result is
/// marked as truncated.
const FILES_MAX: usize = 1_000;

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
}

#[derive(Serialize)]
struct Output {
    files: Vec<String>,
    truncated: bool,
}

pub(super) fn definition() -> ToolDefinition {
    define(
        NAME,
        "Finds files of the project by a path pattern, without those that .gitignore excludes.",
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["pattern"],
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "maxLength": PATTERN_CHARACTERS_MAX, "description": "Such as *.rs (in any folder), src/**/*.ts or *.{yml,yaml}"},
                "path": {"type": "string", "description": "Folder to look in; the pattern is relative to it. Default: the project itself"},
            },
        }),
        Some(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["files", "truncated"],
            "properties": {
                "files": {"type": "array", "items": {"type": "string"}, "description": "Relative to the project, sorted"},
                "truncated": {"type": "boolean", "description": "There are more files than given"},
            },
        })),
    )
}

pub(super) fn run(project: &Project, arguments: &Value, cancel: &Cancellation) -> Result<Value, Error> {
    let Arguments { pattern, path } = parse_arguments(arguments)?;
    let path = project.locate(path.as_deref().unwrap_or("."))?;
    let globs = Globs::compile(Some(&pattern), &path.prefix())?;
    let mut files = Vec::new();
    let mut visit = |found: WalkEntry| {
        if found.kind == EntryKind::File && globs.is_match(&found.path) {
            if files.len() == FILES_MAX {
                return Ok(ControlFlow::Break(()));
            }
            files.push(found.path);
        }
        Ok(ControlFlow::Continue(()))
    };
    let complete = Walk::new(project, cancel, &mut visit).run(&path)?;
    structured(&Output { files, truncated: !complete })
}

//! `fs:list`: lists the entries of a folder.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_types::ToolDefinition;

use crate::Error;
use crate::definition::define;
use crate::project::{Cancellation, EntryKind, Project, Walk, WalkEntry, parse_arguments};
use crate::result::structured;

pub(super) const NAME: &str = "fs:list";

/// Maximum number of entries in one result, to spare the model's context. The rest is omitted and the result
/// is marked as truncated.
const ENTRIES_MAX: usize = 1_000;

/// Maximum nesting of folders in one result. Deeper folders need a call with their own path.
const DEPTH_MAX: usize = 20;

#[derive(Deserialize)]
struct Arguments {
    path: Option<String>,
    depth: Option<usize>,
}

#[derive(Serialize)]
struct Output {
    path: String,
    entries: Vec<Entry>,
    truncated: bool,
}

#[derive(Serialize)]
struct Entry {
    path: String,
    kind: EntryKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

pub(super) fn definition() -> ToolDefinition {
    define(
        NAME,
        "Lists the files and folders in a folder of the project, without those that .gitignore excludes.",
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "path": {"type": "string", "description": "Folder, relative to the project. Default: the project itself"},
                "depth": {"type": "integer", "minimum": 1, "maximum": DEPTH_MAX, "description": "How many levels of folders to list. Default: 1"},
            },
        }),
        Some(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path", "entries", "truncated"],
            "properties": {
                "path": {"type": "string"},
                "entries": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["path", "kind"],
                        "properties": {
                            "path": {"type": "string", "description": "Relative to the project"},
                            "kind": {"enum": ["file", "folder", "link", "other"]},
                            "size": {"type": "integer", "minimum": 0, "description": "Bytes, of files"},
                        },
                    },
                },
                "truncated": {"type": "boolean", "description": "There are more entries than listed"},
            },
        })),
    )
}

pub(super) fn run(project: &Project, arguments: &Value, cancel: &Cancellation) -> Result<Value, Error> {
    let Arguments { path, depth } = parse_arguments(arguments)?;
    let path = project.locate(path.as_deref().unwrap_or("."))?;
    if project.metadata(&path)?.is_file() {
        return Err(path.refused("is a file, not a folder; fs:read reads it"));
    }
    let mut entries = Vec::new();
    let mut visit = |found: WalkEntry| {
        if entries.len() == ENTRIES_MAX {
            return Ok(ControlFlow::Break(()));
        }
        let size = found.metadata.map(|metadata| metadata.len());
        entries.push(Entry { path: found.path, kind: found.kind, size });
        Ok(ControlFlow::Continue(()))
    };
    let depth = depth.unwrap_or(1).clamp(1, DEPTH_MAX);
    let complete = Walk::new(project, cancel, &mut visit).depth(depth).run(&path)?;
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    structured(&Output { path: path.as_str().to_owned(), entries, truncated: !complete })
}

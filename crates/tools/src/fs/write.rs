//! `fs:write`: creates or replaces a file.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_types::ToolDefinition;

use crate::Error;
use crate::definition::define;
use crate::project::{Cancellation, Project, parse_arguments};
use crate::result::structured;

pub(super) const NAME: &str = "fs:write";

/// Maximum size of the content in bytes. A model's output is smaller; more is refused.
const CONTENT_BYTES_MAX: usize = 1024 * 1024;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    content: String,
}

#[derive(Serialize)]
struct Output {
    path: String,
    bytes: usize,
    created: bool,
}

pub(super) fn definition() -> ToolDefinition {
    define(
        NAME,
        "Writes a text file of the project: creates it, or replaces all of it. To change a part of a file use fs:edit.",
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path", "content"],
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "File, relative to the project. Missing folders are created"},
                "content": {"type": "string", "description": "The whole text of the file"},
            },
        }),
        Some(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path", "bytes", "created"],
            "properties": {
                "path": {"type": "string"},
                "bytes": {"type": "integer", "minimum": 0, "description": "Size of the file now"},
                "created": {"type": "boolean", "description": "The file is new"},
            },
        })),
    )
}

pub(super) fn run(project: &Project, arguments: &Value, cancel: &Cancellation) -> Result<Value, Error> {
    let Arguments { path, content } = parse_arguments(arguments)?;
    let path = project.locate(&path)?;
    if content.len() > CONTENT_BYTES_MAX {
        return Err(path.refused(format!(
            "is not written: the content has {} bytes, and {CONTENT_BYTES_MAX} are the most; write less, or in several files",
            content.len()
        )));
    }
    let target = project.write_target(&path, true, cancel)?;
    let existing = target.existing()?;
    let created = existing.is_none();
    // This run cannot have read a file that is too large to read, so no version is expected.
    let version = match target.read() {
        Ok((bytes, _)) if project.has_changed(&path, &bytes) => {
            return Err(path.refused(
                "is not written: it has changed since you last read or wrote it; read it again, then write it with \
                 both changes",
            ));
        }
        Ok((_, version)) => Some(version),
        Err(_) => None,
    };
    let permissions = existing.map(|metadata| metadata.permissions());
    if !target.replace(content.as_bytes(), permissions, version.as_ref(), cancel)? {
        return Err(
            path.refused("is not written: another program wrote to it just now; read it and try again")
        );
    }
    project.record_content(&path, content.as_bytes());
    structured(&Output { path: path.as_str().to_owned(), bytes: content.len(), created })
}

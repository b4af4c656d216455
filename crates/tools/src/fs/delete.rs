//! `fs:delete`: deletes a file.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_types::ToolDefinition;

use crate::Error;
use crate::definition::define;
use crate::project::{Cancellation, Project, ProjectPath, Version, WriteTarget, parse_arguments};
use crate::result::structured;

pub(super) const NAME: &str = "fs:delete";

#[derive(Deserialize)]
struct Arguments {
    path: String,
}

#[derive(Serialize)]
struct Output {
    path: String,
    deleted: bool,
}

pub(super) fn definition() -> ToolDefinition {
    define(
        NAME,
        "Deletes a file of the project. Folders and links are not deleted.",
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path"],
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "File, relative to the project"},
            },
        }),
        Some(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path", "deleted"],
            "properties": {
                "path": {"type": "string"},
                "deleted": {"const": true},
            },
        })),
    )
}

pub(super) fn run(project: &Project, arguments: &Value, cancel: &Cancellation) -> Result<Value, Error> {
    let Arguments { path } = parse_arguments(arguments)?;
    let path = project.locate(&path)?;
    let target = project.write_target(&path, false, cancel)?;
    let (_, version) = known_version(project, &path, &target, "deleted")?;
    if !target.remove(&version, cancel)? {
        return Err(
            path.refused("is not deleted: another program wrote to it just now; read it and try again")
        );
    }
    project.forget_content(&path);
    structured(&Output { path: path.as_str().to_owned(), deleted: true })
}

/// Returns the content and the version of an existing file. The content is `None` if the file is too large to
/// read. Refuses a file that has changed since this run knew it. `done` completes `is not`.
pub(super) fn known_version(
    project: &Project,
    path: &ProjectPath,
    target: &WriteTarget<'_>,
    done: &str,
) -> Result<(Option<Vec<u8>>, Version), Error> {
    let existing = target.version()?;
    match (target.read(), existing) {
        (Ok((bytes, _)), _) if project.has_changed(path, &bytes) => Err(path.refused(format!(
            "is not {done}: it has changed since you last read or wrote it; read it again, then decide"
        ))),
        (Ok((bytes, version)), _) => Ok((Some(bytes), version)),
        // This run cannot have read a file that is too large to read.
        (Err(_), Some(version)) => Ok((None, version)),
        (Err(error), None) => Err(error),
    }
}

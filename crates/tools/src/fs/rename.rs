//! `fs:move`: moves or renames a file.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_types::ToolDefinition;

use super::delete::known_version;
use crate::Error;
use crate::definition::define;
use crate::project::{Cancellation, Project, parse_arguments};
use crate::result::structured;

pub(super) const NAME: &str = "fs:move";

#[derive(Deserialize)]
struct Arguments {
    from: String,
    to: String,
}

#[derive(Serialize)]
struct Output {
    from: String,
    path: String,
}

pub(super) fn definition() -> ToolDefinition {
    define(
        NAME,
        "Moves or renames a file of the project. Nothing may exist at the new path. Folders and links are not moved.",
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["from", "to"],
            "properties": {
                "from": {"type": "string", "minLength": 1, "description": "File, relative to the project"},
                "to": {"type": "string", "minLength": 1, "description": "New path of the file with its name. Missing folders are created"},
            },
        }),
        Some(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["from", "path"],
            "properties": {
                "from": {"type": "string", "description": "Path at which the file was"},
                "path": {"type": "string", "description": "Path of the file now"},
            },
        })),
    )
}

pub(super) fn run(project: &Project, arguments: &Value, cancel: &Cancellation) -> Result<Value, Error> {
    let Arguments { from, to } = parse_arguments(arguments)?;
    let (from, to) = (project.locate(&from)?, project.locate(&to)?);
    if from == to {
        return Err(from.refused("is not moved: from and to are the same path"));
    }
    let (source, target) = project.move_targets(&from, &to, cancel)?;
    let (bytes, version) = known_version(project, &from, &source, "moved")?;
    // Under another name a file that may hold keys could be read.
    project.check_edit(&from, bytes.as_deref().unwrap_or_default())?;
    target.check_free()?;
    if !source.move_to(&target, &version, cancel)? {
        return Err(from.refused("is not moved: another program wrote to it just now; read it and try again"));
    }
    project.forget_content(&from);
    if let Some(bytes) = bytes {
        project.record_content(&to, &bytes);
    }
    structured(&Output { from: from.as_str().to_owned(), path: to.as_str().to_owned() })
}

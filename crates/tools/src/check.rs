//! `check:criteria`: whether criteria are met, decided by looking and not by a model.
//!
//! `criterion` reads what is to be done for one, `files` looks at the project's files, and `command` runs what the
//! project allows.

mod command;
mod criterion;
mod files;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use slipform_types::{CHECKING_TOOL, ToolDefinition};

use crate::definition::define;
use crate::project::{Project, arguments, perform};
use crate::result::structured;
use crate::{Error, Tool, ToolFuture};

pub(crate) use command::Commands;
use criterion::{Arguments, Task};

/// The name of this tool.
pub(crate) const NAME: &str = CHECKING_TOOL;

/// The most criteria of one call. A model reads what comes of each; more are refused before anything is looked at.
const CRITERIA_MAX: usize = 64;

/// How long it may take to look at the files of one call. Commands have a time of their own.
const LOOK_TIME_MAX: Duration = Duration::from_secs(30);

/// What came of a criterion; `passed` is null where nothing could decide it.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Decision {
    criterion: String,
    passed: Option<bool>,
    note: String,
}

/// Whether something holds, if that is known, and what was seen.
type Seen = (Option<bool>, String);

/// The tool, working in this project and with these commands.
pub(crate) fn tool(name: &str, project: &Arc<Project>, commands: Commands) -> Option<Arc<dyn Tool>> {
    let is_it = name == NAME;
    is_it.then(|| -> Arc<dyn Tool> {
        Arc::new(CheckTool { definition: definition(), project: Arc::clone(project), commands })
    })
}

#[derive(Debug)]
struct CheckTool {
    definition: ToolDefinition,
    project: Arc<Project>,
    commands: Commands,
}

impl Tool for CheckTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, given: &'a Value) -> ToolFuture<'a> {
        Box::pin(async move {
            let Arguments { checks } = arguments(given)?;
            let tasks: Vec<(String, Task)> = checks.into_iter().map(criterion::read).collect();
            let mut decisions = Vec::new();
            for ((criterion, task), seen) in tasks.iter().zip(self.look(&tasks).await?) {
                let (passed, note) = match (task, seen) {
                    (Task::Run(argv), _) => self.commands.run(argv, self.project.folder()).await,
                    (Task::Leave(reason), _) => (None, reason.clone()),
                    (Task::Look(_), seen) => seen.unwrap_or_default(),
                };
                decisions.push(Decision { criterion: criterion.clone(), passed, note });
            }
            structured(&json!({"checks": decisions}))
        })
    }
}

impl CheckTool {
    /// Looks at the files of all tasks that are about files, on a thread for that.
    async fn look(&self, tasks: &[(String, Task)]) -> Result<Vec<Option<Seen>>, Error> {
        let looks: Vec<_> = tasks.iter().map(|(_, task)| task.look().cloned()).collect();
        let project = Arc::clone(&self.project);
        perform(NAME, LOOK_TIME_MAX, move |cancel| {
            let look = |look: Option<criterion::Look>| {
                cancel.check()?;
                Ok(look.map(|look| files::look(&project, &look)))
            };
            looks.into_iter().map(look).collect()
        })
        .await
    }
}

fn definition() -> ToolDefinition {
    define(
        NAME,
        "Checks criteria in the project: that a file or folder exists, that a file holds a text or matches a pattern, \
         that an allowed command succeeds. passed is null where it could not be decided: look at the files yourself.",
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["checks"],
            "properties": {
                "checks": {
                    "type": "array",
                    "maxItems": CRITERIA_MAX,
                    "description": "Criteria: each with what is to be checked for it, or in words such as 'File src/main.rs exists' or 'src/main.rs contains main'",
                    "items": {"anyOf": [
                        {"type": "string", "minLength": 1},
                        {
                            "type": "object",
                            "additionalProperties": false,
                            "required": ["criterion"],
                            "properties": {
                                "criterion": {"type": "string", "minLength": 1, "description": "The criterion in words"},
                                "path": {"type": "string", "minLength": 1, "description": "File or folder that has to exist"},
                                "contains": {"type": "string", "minLength": 1, "description": "Text that the file has to hold"},
                                "matches": {"type": "string", "minLength": 1, "maxLength": files::PATTERN_CHARACTERS_MAX, "description": "Regular expression that the file has to match"},
                                "absent": {"type": "boolean", "description": "True to check that it is not so"},
                                "command": {"type": "array", "minItems": 1, "items": {"type": "string"}, "description": "Program and arguments that have to succeed"},
                            },
                        },
                    ]},
                },
            },
        }),
        Some(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["checks"],
            "properties": {
                "checks": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["criterion", "passed", "note"],
                        "properties": {
                            "criterion": {"type": "string"},
                            "passed": {"type": ["boolean", "null"], "description": "Null: not decided"},
                            "note": {"type": "string", "description": "What was seen"},
                        },
                    },
                },
            },
        })),
    )
}

//! `check:criteria`: decides acceptance criteria by inspecting the project, without a model.
//!
//! `criterion` parses a criterion into a task, and `words` a criterion in words. `files` inspects the project's
//! files, `symbols` searches its code, and `command` runs commands that the project allows by a
//! `command_pattern`.

mod command;
mod command_pattern;
mod criterion;
mod files;
mod symbols;
mod words;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use slipform_types::{CHECKING_TOOL, ToolDefinition};

use crate::definition::define;
use crate::project::{Cancellation, Project, parse_arguments, run_blocking};
use crate::result::structured;
use crate::{Error, Tool, ToolFuture};

pub(crate) use command::Commands;
pub use command_pattern::CommandPattern;
use criterion::{Arguments, Task};

/// The name of this tool.
pub(crate) const NAME: &str = CHECKING_TOOL;

/// Maximum number of criteria in one call. The arguments' schema rejects more.
const CRITERIA_MAX: usize = 64;

/// Time limit for inspecting the files of one call. Commands have their own limit.
const INSPECTION_TIME_MAX: Duration = Duration::from_secs(30);

/// The decision about one criterion. `passed` is null if it could not be decided.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Decision {
    criterion: String,
    passed: Option<bool>,
    note: String,
}

/// Whether a criterion is met, if that is known, and a note for the model.
type Finding = (Option<bool>, String);

/// Returns the tool if `name` is its name.
pub(crate) fn tool(name: &str, project: &Arc<Project>, commands: Commands) -> Option<Arc<dyn Tool>> {
    (name == NAME).then(|| -> Arc<dyn Tool> {
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

    fn call<'a>(&'a self, arguments: &'a Value) -> ToolFuture<'a> {
        Box::pin(async move {
            let Arguments { checks } = parse_arguments(arguments)?;
            let tasks: Vec<(String, Task)> = checks.into_iter().map(criterion::parse).collect();
            let mut decisions = Vec::new();
            for ((criterion, task), finding) in tasks.iter().zip(self.inspect_files(&tasks).await?) {
                let (passed, note) = match (task, finding) {
                    (Task::Run(argv), _) => self.commands.run(argv, self.project.folder()).await,
                    (Task::RunWords { argv, is_quoted }, _) => {
                        if *is_quoted || self.commands.is_allowed(argv) {
                            self.commands.run(argv, self.project.folder()).await
                        } else {
                            (None, criterion::UNDECIDED.to_owned())
                        }
                    }
                    (Task::Undecided(reason), _) => (None, reason.clone()),
                    (Task::Inspect(_) | Task::Search(_), finding) => finding.unwrap_or_default(),
                };
                decisions.push(Decision { criterion: criterion.clone(), passed, note });
            }
            structured(&json!({"checks": decisions}))
        })
    }
}

impl CheckTool {
    /// Inspects the files of all tasks that concern files, on a blocking thread.
    async fn inspect_files(&self, tasks: &[(String, Task)]) -> Result<Vec<Option<Finding>>, Error> {
        let (project, tasks) = (Arc::clone(&self.project), tasks.to_vec());
        run_blocking(NAME, INSPECTION_TIME_MAX, move |cancel| inspect(&project, &tasks, cancel)).await
    }
}

/// Returns the findings about tasks that concern files.
fn inspect(
    project: &Project,
    tasks: &[(String, Task)],
    cancel: &Cancellation,
) -> Result<Vec<Option<Finding>>, Error> {
    let searched = tasks.iter().filter_map(|(_, task)| match task {
        Task::Search(checks) => Some(checks),
        _ => None,
    });
    // All searches share one walk over the project.
    let checks: Vec<_> = searched.flatten().collect();
    let mut searched = symbols::search(project, &checks, cancel)?.into_iter();
    let inspect = |(_, task): &(String, Task)| {
        cancel.check()?;
        Ok(match task {
            Task::Inspect(checks) => Some(all(checks.iter().map(|check| files::inspect(project, check)))),
            Task::Search(checks) => Some(all(searched.by_ref().take(checks.len()))),
            _ => None,
        })
    };
    tasks.iter().map(inspect).collect()
}

/// Joins findings that must all pass: one that failed decides, then one that is undecided.
fn all(findings: impl Iterator<Item = Finding>) -> Finding {
    let rank = |passed: Option<bool>| match passed {
        Some(false) => 0,
        None => 1,
        Some(true) => 2,
    };
    findings.min_by_key(|(passed, _)| rank(*passed)).unwrap_or_default()
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

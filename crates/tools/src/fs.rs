//! The project's files: read, list, search, write and edit.
//!
//! One file a tool, each with its `NAME`, its `definition` and its `run`.

mod edit;
mod glob;
mod globs;
mod list;
mod read;
mod search;
mod write;

use std::sync::Arc;
use std::time::Duration;

use slipform_types::ToolDefinition;

use crate::Tool;
use crate::project::{Project, ProjectTool, Run};

pub(crate) use read::text;

/// How long a call may take. A search over a large project on a slow disk takes seconds; what takes longer is stopped
/// and the model is told so.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);

/// How much text one call gives back, so that no call fills a model's context. The rest is left out and the result is
/// marked as truncated.
const RESULT_CHARACTERS_MAX: usize = 60_000;

/// The names of these tools.
pub(crate) const NAMES: [&str; 6] =
    [read::NAME, list::NAME, search::NAME, glob::NAME, write::NAME, edit::NAME];

/// The tool of this name, working in this project.
pub(crate) fn tool(name: &str, project: &Arc<Project>) -> Option<Arc<dyn Tool>> {
    let (definition, run): (ToolDefinition, Run) = match name {
        read::NAME => (read::definition(), read::run),
        list::NAME => (list::definition(), list::run),
        search::NAME => (search::definition(), search::run),
        glob::NAME => (glob::definition(), glob::run),
        write::NAME => (write::definition(), write::run),
        edit::NAME => (edit::definition(), edit::run),
        _ => return None,
    };
    Some(Arc::new(ProjectTool { definition, project: Arc::clone(project), limit: CALL_TIME_MAX, run }))
}

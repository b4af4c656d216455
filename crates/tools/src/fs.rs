//! The `fs:` tools: read, list, search, glob, write, edit, delete and move the project's files.
//!
//! One file per tool, each with its `NAME`, its `definition` and its `run`. `globs` compiles path patterns.

mod delete;
mod edit;
mod glob;
mod globs;
mod list;
mod read;
mod rename;
mod search;
mod write;

use std::sync::Arc;
use std::time::Duration;

use slipform_types::ToolDefinition;

use crate::Tool;
use crate::project::{Project, ProjectTool, ToolFunction};

pub(crate) use read::text;

/// Time limit of one call. A search over a large project on a slow disk takes seconds; a longer call is
/// cancelled and reported as a timeout.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum text that one call returns, so that no call fills a model's context. The rest is omitted and the
/// result is marked as truncated.
const RESULT_CHARACTERS_MAX: usize = 60_000;

/// The names of these tools.
pub(crate) const NAMES: [&str; 8] =
    [read::NAME, list::NAME, search::NAME, glob::NAME, write::NAME, edit::NAME, delete::NAME, rename::NAME];

/// Returns the `fs:` tool with this name.
pub(crate) fn tool(name: &str, project: &Arc<Project>) -> Option<Arc<dyn Tool>> {
    let (definition, run): (ToolDefinition, ToolFunction) = match name {
        read::NAME => (read::definition(), read::run),
        list::NAME => (list::definition(), list::run),
        search::NAME => (search::definition(), search::run),
        glob::NAME => (glob::definition(), glob::run),
        write::NAME => (write::definition(), write::run),
        edit::NAME => (edit::definition(), edit::run),
        delete::NAME => (delete::definition(), delete::run),
        rename::NAME => (rename::definition(), rename::run),
        _ => return None,
    };
    Some(Arc::new(ProjectTool { definition, project: Arc::clone(project), limit: CALL_TIME_MAX, run }))
}

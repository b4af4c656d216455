//! `code:search`: the places in the project's files that a few words are about, best first.
//!
//! Files are cut into pieces of a function's size, which are ranked by BM25 over the parts of their identifiers. What
//! is known of a file is kept as long as the file stays the same, in memory and in `.slipform/index`.

mod chunks;
mod index;
mod rank;
mod search;
mod store;
mod terms;

use std::sync::Arc;
use std::time::Duration;

use crate::Tool;
use crate::project::{Project, ProjectTool};

pub(crate) use index::Index;

/// How long a call may take. The first one reads every file; what it has read by then is kept, so the next one goes on
/// from there.
const CALL_TIME_MAX: Duration = Duration::from_secs(60);

/// The names of this tool.
pub(crate) const NAMES: [&str; 2] = [search::NAME, search::ALIAS];

/// The tool of this name, working in this project.
pub(crate) fn tool(name: &str, project: &Arc<Project>) -> Option<Arc<dyn Tool>> {
    let definition = match name {
        search::NAME => search::definition(),
        search::ALIAS => search::alias(),
        _ => return None,
    };
    let project = Arc::clone(project);
    Some(Arc::new(ProjectTool { definition, project, limit: CALL_TIME_MAX, run: search::run }))
}

//! `code:search`: ranks places in the project's files by their relevance to a query.
//!
//! - `chunks` splits files into chunks of the size of a function, `terms` tokenizes and stems their words.
//! - `index` keeps the chunks of unchanged files in memory, `store` saves them in `.slipform/index`.
//! - `rank` scores chunks by BM25 over the parts of their identifiers, `search` is the tool itself.

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

/// Time limit of one call. The first call reads every file; the index keeps what was read before a timeout,
/// so the next call continues there.
const CALL_TIME_MAX: Duration = Duration::from_secs(60);

/// The names of this tool.
pub(crate) const NAMES: [&str; 2] = [search::NAME, search::ALIAS];

/// Returns the `code:` tool with this name.
pub(crate) fn tool(name: &str, project: &Arc<Project>) -> Option<Arc<dyn Tool>> {
    let definition = match name {
        search::NAME => search::definition(),
        search::ALIAS => search::alias(),
        _ => return None,
    };
    let project = Arc::clone(project);
    Some(Arc::new(ProjectTool { definition, project, limit: CALL_TIME_MAX, run: search::run }))
}

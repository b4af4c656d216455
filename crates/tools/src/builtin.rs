//! The tools that come with the program, by name.

use std::sync::Arc;

use crate::Tool;
use crate::check::{self, Commands};
use crate::project::Project;
use crate::{code, fs};

/// The built-in tool of this name, working in this project. It runs no commands.
pub fn builtin(name: &str, project: &Arc<Project>) -> Option<Arc<dyn Tool>> {
    with_commands(name, project, &Commands::default())
}

/// The same with the commands that the project allows.
pub(crate) fn with_commands(
    name: &str,
    project: &Arc<Project>,
    commands: &Commands,
) -> Option<Arc<dyn Tool>> {
    fs::tool(name, project)
        .or_else(|| code::tool(name, project))
        .or_else(|| check::tool(name, project, commands.clone()))
}

/// The names of all built-in tools.
pub fn builtin_names() -> Vec<&'static str> {
    fs::NAMES.into_iter().chain(code::NAMES).chain([check::NAME]).collect()
}

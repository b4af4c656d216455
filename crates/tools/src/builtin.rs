//! The tools that come with the program, by name.

use std::sync::Arc;

use crate::Tool;
use crate::project::Project;
use crate::{code, fs};

/// The built-in tool of this name, working in this project.
pub fn builtin(name: &str, project: &Arc<Project>) -> Option<Arc<dyn Tool>> {
    fs::tool(name, project).or_else(|| code::tool(name, project))
}

/// The names of all built-in tools.
pub fn builtin_names() -> Vec<&'static str> {
    fs::NAMES.into_iter().chain(code::NAMES).collect()
}

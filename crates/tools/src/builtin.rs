//! Looks up the built-in tools by name.

use std::sync::Arc;

use crate::Tool;
use crate::check::{self, Commands};
use crate::project::Project;
use crate::{code, fs};

/// Returns the built-in tool with this name. Its `check:criteria` runs no commands.
pub fn builtin(name: &str, project: &Arc<Project>) -> Option<Arc<dyn Tool>> {
    with_commands(name, project, &Commands::default())
}

/// Returns the built-in tool with this name. Its `check:criteria` may run `commands`.
pub(crate) fn with_commands(
    name: &str,
    project: &Arc<Project>,
    commands: &Commands,
) -> Option<Arc<dyn Tool>> {
    fs::tool(name, project)
        .or_else(|| code::tool(name, project))
        .or_else(|| check::tool(name, project, commands.clone()))
}

/// Returns the names of all built-in tools, aliases included.
pub fn builtin_names() -> Vec<&'static str> {
    fs::NAMES.into_iter().chain(code::NAMES).chain([check::NAME]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_list_names_all_builtin_tools() {
        assert_eq!(builtin_names(), slipform_types::BUILTIN_TOOLS);
    }
}

//! The tools that an agent names.

use slipform_types::{BUILTIN_TOOLS, Blueprint};

/// Returns the first tool of a blueprint that no runner has: its index, and what is wrong. Tools of MCP servers are known
/// only at run time, so every `SERVER:TOOL` of a configured server is accepted.
pub fn unknown_tool(blueprint: &Blueprint) -> Option<(usize, String)> {
    let is_known = |name: &str| {
        BUILTIN_TOOLS.contains(&name)
            || name.split_once(':').is_some_and(|(server, _)| blueprint.mcp_servers.contains_key(server))
    };
    let index = blueprint.tools.iter().position(|name| !is_known(name))?;
    let (name, known) = (&blueprint.tools[index], BUILTIN_TOOLS.join(", "));
    Some((
        index,
        format!("tool `{name}` not found; available: {known}, and SERVER:TOOL of the agent's mcp_servers"),
    ))
}

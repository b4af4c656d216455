//! The tools that an agent names.

use slipform_types::{BUILTIN_TOOLS, Blueprint};

/// Returns the first tool of a blueprint that no runner has: its index, and what is wrong. Tools of MCP servers are known
/// only at run time, so every `SERVER:TOOL` of a configured server is accepted.
pub fn unknown_tool(blueprint: &Blueprint) -> Option<(usize, String)> {
    let is_server = |server: &str| blueprint.mcp_servers.contains_key(server);
    let index = blueprint.tools.iter().position(|name| !is_known(name, is_server))?;
    Some((index, unknown(&blueprint.tools[index])))
}

/// Returns whether a runner may have a tool.
pub(crate) fn is_known(name: &str, is_server: impl Fn(&str) -> bool) -> bool {
    BUILTIN_TOOLS.contains(&name) || name.split_once(':').is_some_and(|(server, _)| is_server(server))
}

/// Returns the message for an unknown tool.
pub(crate) fn unknown(name: &str) -> String {
    let known = BUILTIN_TOOLS.join(", ");
    format!("tool `{name}` not found; available: {known}, and SERVER:TOOL of the agent's mcp_servers")
}

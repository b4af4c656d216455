//! What an agent can call, as the journal keeps it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool that an agent may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Its name: `fs:read`, or `server:tool` for the tool of an MCP server.
    pub name: String,
    /// What it does, in words for a model.
    pub description: String,
    /// The schema of its arguments.
    pub parameters: Value,
    /// The schema of its result, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// `sha256:` and the hash of all of the above: a run that goes on elsewhere must find the same tool.
    pub hash: String,
}

/// What stands before the colon in the names of the tools that come with the program. They work on the project's files.
pub const OWN_TOOLS: [&str; 4] = ["fs", "code", "mind", "check"];

/// The tools that write to the path they answer with.
pub const WRITING_TOOLS: [&str; 2] = ["fs:write", "fs:edit"];

/// The tool that decides criteria.
pub const CHECKING_TOOL: &str = "check:criteria";

//! Tool definitions, as the journal stores them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool that an agent may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name: `fs:read`, or `server:tool` for the tool of an MCP server.
    pub name: String,
    /// The description that the model reads.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub parameters: Value,
    /// The JSON Schema of the result; `None` if the tool declares none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// `sha256:` and the hash of the fields above. A run that continues on another runner must find the same
    /// tool.
    pub hash: String,
}

/// The built-in tools, with the alias of `code:search`.
pub const BUILTIN_TOOLS: [&str; 11] = [
    "fs:read",
    "fs:list",
    "fs:search",
    "fs:glob",
    "fs:write",
    "fs:edit",
    "fs:delete",
    "fs:move",
    "code:search",
    "mind:rag-query",
    "check:criteria",
];

/// The prefixes, before the colon, of the built-in tools. They work on the project's files.
pub const BUILTIN_TOOL_PREFIXES: [&str; 4] = ["fs", "code", "mind", "check"];

/// The tools that change files. Their result names the changed file as `path`, and `fs:move` its old path as
/// `from`.
pub const WRITING_TOOLS: [&str; 4] = ["fs:write", "fs:edit", "fs:delete", "fs:move"];

/// The tools that look for words in the project's files.
pub const SEARCHING_TOOLS: [&str; 3] = ["code:search", "mind:rag-query", "fs:search"];

/// The tool that decides criteria.
pub const CHECKING_TOOL: &str = "check:criteria";

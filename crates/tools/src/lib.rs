//! What an agent can call: each tool with the schemas of its arguments and of its result, and hard limits.
//!
//! - [`Tool`] is what all of them are; [`Toolbox`] holds those of one run and finds them by name.
//! - [`mcp`] brings the tools of MCP servers.
//! - One file a tool. None of them decides who may call it: that is the blueprint's `tools`.
//!
//! Not in here: checking arguments and counting calls (`slipform-engine`), starting other agents
//! (`slipform-runner`).

mod builtin;
mod check;
mod code;
mod definition;
mod error;
mod fs;
pub mod mcp;
mod project;
mod result;
mod toolbox;

use std::pin::Pin;

use serde_json::Value;
use slipform_types::ToolDefinition;

pub use builtin::{builtin, builtin_names};
pub use error::Error;
pub use project::{Project, ProjectPolicy, resolve_folder};
pub use toolbox::Toolbox;

/// A call's future: the tool's structured result, or why there is none, in words for the model.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send + 'a>>;

/// Something an agent can call.
pub trait Tool: Send + Sync + std::fmt::Debug {
    /// What it is called, what it takes and what it gives.
    fn definition(&self) -> &ToolDefinition;

    /// Performs one call. The arguments satisfy the definition's schema: the engine has checked them.
    fn call<'a>(&'a self, arguments: &'a Value) -> ToolFuture<'a>;
}

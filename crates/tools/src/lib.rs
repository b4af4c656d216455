//! Tools that agents can call: files, code search, criteria checks and the tools of MCP servers.
//!
//! Each tool declares JSON Schemas for its arguments and its result, and bounds the time, memory and text of
//! a call.
//!
//! Modules, in reading order:
//!
//! - `toolbox`: [`Toolbox`] opens the tools of one run and calls them by name.
//! - `builtin`: looks up the built-in tools by name.
//! - `project`: [`Project`], the directory handle that resolves every path; walking, locking and writing
//!   files.
//! - `fs`: one file per `fs:` tool (read, list, search, glob, write, edit).
//! - `code`: `code:search`, a BM25 index over the project's files.
//! - `check`: `check:criteria`, which decides criteria by inspecting files and running allowed commands.
//! - [`mcp`]: starts or reaches MCP servers and wraps their tools.
//! - `definition`, `result`, `error`: tool definitions with their hash, results as JSON, and errors for
//!   models.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use slipform_tools::{Project, builtin};
//!
//! let project = Arc::new(Project::open(Path::new("."))?);
//! let read = builtin("fs:read", &project).expect("fs:read is built in");
//! assert_eq!(read.definition().name, "fs:read");
//! # Ok::<(), slipform_tools::Error>(())
//! ```
//!
//! Not in this crate: the decision which agent may call which tool (the blueprint's `tools`), checking
//! arguments and counting calls (`slipform-engine`), and starting other agents (`slipform-runner`).

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
pub use check::CommandPattern;
pub use error::Error;
pub use project::{Project, ProjectPolicy, resolve_folder};
pub use toolbox::Toolbox;

/// The future of one call: the tool's structured result, or an error whose message the model reads.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send + 'a>>;

/// A function that an agent can call.
pub trait Tool: Send + Sync + std::fmt::Debug {
    /// Returns the tool's name, description and schemas. The engine shows them to the model.
    fn definition(&self) -> &ToolDefinition;

    /// Performs one call. The engine has already validated `arguments` against the definition's schema.
    fn call<'a>(&'a self, arguments: &'a Value) -> ToolFuture<'a>;
}

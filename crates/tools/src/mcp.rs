//! MCP client: starts or reaches MCP servers and exposes their tools as [`Tool`]s.
//!
//! The tool list is fixed when the connection is opened; later changes at the server have no effect. The
//! client offers no capabilities, so a server that requests sampling or elicitation receives an error.
//!
//! A tool's result is its `structuredContent`, validated against the tool's output schema. Without it, the
//! result is built from the content: a single item is returned as it is, several become an array. Text stays
//! a string; images, audio and files become objects with their type and size, without their bytes.
//!
//! - `connection` starts or reaches a server and performs the handshake; `stdio` and `http` are its
//!   transports.
//! - `listing` requests and validates the tool list once, `tool` calls a tool, `result` converts the
//!   response.
//! - `server` and `diagnostics` build error messages from what is known about the server.

mod connection;
mod diagnostics;
mod http;
mod listing;
mod result;
mod server;
mod stdio;
mod tool;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use slipform_types::McpServer;

use crate::{CommandPattern, Error, ProjectPolicy, Tool};
use connection::Connection;
use tool::McpTool;

/// The environment of a run's tools: folder, variables, limits and permissions.
#[derive(Clone)]
pub struct ToolContext {
    /// The working directory of programs.
    pub folder: PathBuf,
    /// All environment variables that programs see.
    pub environment: Vec<(String, String)>,
    /// Time and size limits for MCP servers.
    pub limits: Limits,
    /// The commands that `check:criteria` may run.
    pub commands: Vec<CommandPattern>,
    /// Rules for reading and writing files that extend the built-in ones.
    pub policy: ProjectPolicy,
}

/// Shows only the names of variables, because their values may be keys.
impl std::fmt::Debug for ToolContext {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.environment.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("ToolContext")
            .field("folder", &self.folder)
            .field("environment", &names)
            .field("limits", &self.limits)
            .field("commands", &self.commands)
            .field("policy", &self.policy)
            .finish()
    }
}

/// Time and size limits for one MCP server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time limit of the handshake, and again of listing the tools.
    pub connect: Duration,
    /// Time limit of one call.
    pub call: Duration,
    /// Maximum size of one message from the server.
    pub message_bytes_max: usize,
    /// Maximum size of one result that is passed to a model.
    pub result_bytes_max: usize,
}

/// Default handshake limit. Programs written in Python or run by a package manager take seconds to start;
/// after half a minute the server counts as broken and the run fails.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// Default limit of a call. Searches and builds take seconds; a longer call is cancelled and reported as a
/// timeout.
const CALL_MAX: Duration = Duration::from_secs(60);

/// Default size limit of a message. Screenshots take some megabytes in base64; a longer message is discarded
/// and the waiting calls fail.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Default size limit of a result: about 250,000 tokens, more than models read. A larger result becomes an
/// error.
const RESULT_BYTES_MAX: usize = 1024 * 1024;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: CONNECT_MAX,
            call: CALL_MAX,
            message_bytes_max: MESSAGE_BYTES_MAX,
            result_bytes_max: RESULT_BYTES_MAX,
        }
    }
}

/// Connects to a server and returns its tools, named `server:tool`.
///
/// A server program and its child processes are killed when the last of its tools is dropped. Needs a Tokio
/// runtime with time and I/O enabled, which the tools keep using.
///
/// # Errors
/// Returns an error when the server cannot be started or reached, does not speak MCP, or offers an unusable
/// list of tools: a schema that does not compile, a duplicate name, or more than the limits allow.
pub async fn connect(
    name: &str,
    server: &McpServer,
    context: &ToolContext,
) -> Result<Vec<Arc<dyn Tool>>, Error> {
    let connection = Arc::new(Connection::open(name, server, context).await?);
    let listed = listing::list(&connection).await?;
    Ok(listed.into_iter().map(|tool| McpTool::shared(tool, connection.clone())).collect())
}

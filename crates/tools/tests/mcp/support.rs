//! Servers for the tests, and helpers that format their results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipform_process::common_environment;
use slipform_testkit::WAIT_MAX;
use slipform_tools::mcp::{Limits, ToolContext, connect};
use slipform_tools::{Error, Tool};
use slipform_types::McpServer;

/// A time limit that tests wait for: short, but long enough for a program to start on a busy machine.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

pub(crate) fn servers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers")
}

pub(crate) fn tool_context() -> ToolContext {
    ToolContext {
        folder: servers(),
        environment: common_environment(&|name| std::env::var(name).ok()),
        limits: Limits { connect: WAIT_MAX, call: WAIT_MAX, ..Limits::default() },
        commands: Vec::new(),
        policy: slipform_tools::ProjectPolicy::default(),
    }
}

pub(crate) fn command(words: &[&str]) -> McpServer {
    McpServer::Command { command: words.iter().map(|&word| word.to_owned()).collect() }
}

/// Returns the server that misbehaves as these arguments say.
pub(crate) fn scripted(words: &[&str]) -> McpServer {
    command(&[&["python3", "scripted.py"], words].concat())
}

pub(crate) async fn open(server: &McpServer, context: &ToolContext) -> Result<Vec<Arc<dyn Tool>>, Error> {
    tokio::time::timeout(2 * WAIT_MAX, connect("demo", server, context)).await.unwrap()
}

/// Calls a tool by name.
pub(crate) async fn call(tools: &[Arc<dyn Tool>], name: &str, arguments: Value) -> Result<Value, Error> {
    let tool = tools.iter().find(|tool| tool.definition().name == name).unwrap();
    tokio::time::timeout(2 * WAIT_MAX, tool.call(&arguments)).await.unwrap()
}

/// Formats a result as JSON, an error as its variant and message.
pub(crate) fn shown(outcome: &Result<Value, Error>) -> String {
    match outcome {
        Ok(value) => value.to_string(),
        Err(error) => failure(error),
    }
}

pub(crate) fn failure(error: &Error) -> String {
    let kind = format!("{error:?}");
    format!("{}: {error}", kind.split([' ', '(', '{']).next().unwrap())
}

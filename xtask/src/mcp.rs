//! Installs published MCP servers for the tests of the MCP client.

use std::path::PathBuf;

use anyhow::Result;

use crate::python;

/// The official Python SDK, with which the tests build servers, and a published server.
const PACKAGES: [&str; 2] = ["mcp==2.3.0", "mcp-server-time==2026.10.19"];

/// Installs the servers into a virtual environment and returns its Python.
pub(crate) fn install() -> Result<PathBuf> {
    Ok(python::install("mcp", &PACKAGES)?.join("python"))
}

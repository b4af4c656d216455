//! Published MCP servers, which the tests of the client talk to.

use std::path::PathBuf;

use anyhow::Result;

use crate::python;

/// The official Python SDK, from which servers are made, and a server that people use.
const PACKAGES: [&str; 2] = ["mcp==2.3.0", "mcp-server-time==2026.10.19"];

/// Installs the servers into an environment of their own and gives the Python that has them.
pub(crate) fn install() -> Result<PathBuf> {
    Ok(python::install("mcp", &PACKAGES)?.join("python"))
}

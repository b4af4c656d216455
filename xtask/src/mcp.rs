//! Installs published MCP servers and clients for the tests.

use std::path::PathBuf;

use anyhow::Result;

use crate::shell::root;
use crate::{node, python};

/// The official Python SDK, with which the tests build servers, and a published server.
const PACKAGES: [&str; 2] = ["mcp==2.3.0", "mcp-server-time==2026.10.19"];

/// The Python clients: folder and packages. The client of `mcp` 2.3 is installed with the servers.
const PYTHON_CLIENTS: [(&str, &[&str]); 2] =
    [("py1", &["mcp==1.30.0"]), ("fast", &["fastmcp==4.1.2", "fastmcp-tasks==4.1.2"])];

/// The official conformance suite, with the Node.js that it needs.
const CONFORMANCE: [&str; 2] = ["@modelcontextprotocol/conformance@0.2.0-alpha.12", node::RUNTIME];

/// MCP Inspector, whose command-line mode the tests use.
const INSPECTOR: [&str; 1] = ["@modelcontextprotocol/inspector@2.12.0"];

/// The TypeScript clients: folder and packages.
const NODE_CLIENTS: [(&str, &[&str]); 2] = [
    ("ts1", &["@modelcontextprotocol/sdk@1.32.2"]),
    ("ts2", &["@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/ext-tasks@0.2.2"]),
];

/// The folder with the programs that use the clients.
const DRIVERS: &str = "crates/cli/tests/clients";

/// Installs the servers into a virtual environment and returns its Python.
pub(crate) fn install() -> Result<PathBuf> {
    Ok(python::install("mcp", &PACKAGES)?.join("python"))
}

/// Installs the clients and returns the folder that contains them.
pub(crate) fn install_clients() -> Result<PathBuf> {
    for (name, packages) in PYTHON_CLIENTS {
        python::install(&format!("mcp-clients/{name}"), packages)?;
    }
    let folder = root().join("target/mcp-clients");
    for (name, packages) in NODE_CLIENTS {
        node::install(&folder.join(name), packages)?;
        node::copy_modules(DRIVERS, &["common.mjs", &format!("{name}.mjs")], &folder.join(name))?;
    }
    node::install(&folder.join("inspector"), &INSPECTOR)?;
    if node::has_runtime() {
        node::install(&folder.join("conformance"), &CONFORMANCE)?;
    }
    Ok(folder)
}

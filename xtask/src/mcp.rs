//! Published MCP servers, which the tests of the client talk to.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::shell::{self, command, exists, root};

/// The official Python SDK, from which servers are made, and a server that people use.
const PACKAGES: [&str; 2] = ["mcp==2.3.0", "mcp-server-time==2026.10.19"];

/// Installs the servers into an environment of their own and gives the Python that has them.
pub(crate) fn install() -> Result<PathBuf> {
    let folder = root().join("target/mcp");
    let python = folder.join("bin/python");
    let (mark, wanted) = (folder.join("installed"), PACKAGES.join("\n"));
    if python.is_file() && fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    if !exists("python3") {
        bail!("python3 is missing: the MCP servers that the tests talk to are Python programs");
    }
    shell::run("python environment", command("python3", &["-m", "venv"]).arg(&folder))?;
    let mut install = command(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    shell::run("MCP servers", install.args(PACKAGES))?;
    fs::write(mark, wanted).context("marking the MCP servers as installed")?;
    Ok(python)
}

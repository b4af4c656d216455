//! Installs the published client libraries with which the tests use the gateway.

use std::path::PathBuf;

use anyhow::Result;

use crate::shell::root;
use crate::{node, python};

/// The Python libraries: folder and packages. Libraries that need the same version of `openai` share a folder.
const PYTHON_CLIENTS: [(&str, &[&str]); 2] = [
    (
        "openai3",
        &[
            "openai==3.49.0",
            "pydantic-ai-slim[openai]==2.62.0",
            "langchain-core==1.8.0",
            "langchain-openai==1.7.0",
            // Without the extra, a request with tools needs a package that is not installed.
            "litellm[mcp]==1.108.0",
        ],
    ),
    (
        "openai2",
        &[
            "openai==2.37.0",
            "instructor==1.17.0",
            "llama-index-core==0.14.25",
            "llama-index-llms-openai==0.8.0",
        ],
    ),
];

/// LiteLLM requires a later `certifi` than the index may have. The tests use no certificates.
const OVERRIDES: [&str; 1] = ["certifi>=2026"];

/// The TypeScript libraries. They need Node.js 22.
const NODE_CLIENTS: [&str; 4] =
    ["openai@7.55.0", "ai@7.0.173", "@ai-sdk/openai-compatible@3.0.92", "zod@4.6.7"];

/// The programs that use the TypeScript libraries.
const NODE_DRIVERS: [&str; 3] = ["common.mjs", "openai_client.mjs", "ai_sdk_client.mjs"];

/// The folder with the programs that use the libraries.
const DRIVERS: &str = "crates/cli/tests/gateway_clients";

/// Installs the libraries and returns the folder that contains them.
pub(crate) fn install_clients() -> Result<PathBuf> {
    for (name, packages) in PYTHON_CLIENTS {
        python::install_with_overrides(&format!("gateway-clients/{name}"), packages, &OVERRIDES)?;
    }
    let folder = root().join("target/gateway-clients");
    let runtime = node::has_runtime().then_some(node::RUNTIME);
    let packages: Vec<&str> = NODE_CLIENTS.into_iter().chain(runtime).collect();
    node::install(&folder.join("node"), &packages)?;
    node::copy_modules(DRIVERS, &NODE_DRIVERS, &folder.join("node"))?;
    Ok(folder)
}

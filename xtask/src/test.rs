//! `cargo xtask test`: runs exactly what CI runs.

use std::process::Command;

use anyhow::Result;

use crate::shell::{self, command, root};
use crate::{gateway, mcp, postgres, python, tidy, ui, weights};

/// The cargo-deny version whose format `deny.toml` has.
const DENY_VERSION: &str = "0.20.2";

/// The Python package that generates requests for the API tests.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

fn run_all() -> Result<()> {
    shell::run("format", &mut command("cargo", &["fmt", "--all", "--check"]))?;
    println!("\n=== tidy");
    tidy::run()?;
    shell::run(
        "lints",
        &mut command("cargo", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]),
    )?;
    ui::build()?;
    ui::check()?;
    shell::run("building slipform", &mut command("cargo", &["build", "--quiet", "--package", "slipform"]))?;
    let weights = weights::pull(&root().join("target/debug/slipform"))?;
    let python = mcp::install()?;
    let clients = mcp::install_clients()?;
    let gateway_clients = gateway::install_clients()?;
    let schemathesis = python::install("schemathesis", &[SCHEMATHESIS])?.join("schemathesis");
    let database = postgres::Server::start()?;
    let mut tests = command("cargo", &["test", "--workspace", "--quiet", "--no-fail-fast"]);
    tests
        .env("SLIPFORM_MODEL", weights)
        .env("SLIPFORM_MCP_PYTHON", python)
        .env("SLIPFORM_MCP_CLIENTS", clients)
        .env("SLIPFORM_GATEWAY_CLIENTS", gateway_clients)
        .env("SLIPFORM_SCHEMATHESIS", schemathesis)
        .env("SLIPFORM_TEST_POSTGRES", database.url())
        .env("SLIPFORM_TEST_POSTGRES_BIN", database.programs());
    shell::run("tests", &mut tests)?;
    shell::run("command tests against a server", &mut commands_against_a_server())?;
    ui::test_in_browser(&root().join("target/debug/slipform"), &database.url())?;
    drop(database);
    let mut documentation = command("cargo", &["doc", "--workspace", "--no-deps", "--quiet"]);
    shell::run("documentation", documentation.env("RUSTDOCFLAGS", "-D warnings"))?;
    deny()
}

/// Modules of the command suite that use no coordinator, or start one themselves.
const WITHOUT_COORDINATOR: [&str; 9] =
    ["api::", "check::", "docs::", "embedded", "gateway", "mcp", "model::", "protection::", "reference::"];

/// Returns the second run of the command suite, in which a coordinator serves the project of each command. The same
/// selection of packages shares the build of the first run.
fn commands_against_a_server() -> Command {
    let mut tests = command("cargo", &["test", "--workspace", "--quiet", "--test", "cli", "--"]);
    for module in WITHOUT_COORDINATOR {
        tests.args(["--skip", module]);
    }
    tests.env("SLIPFORM_TEST_SERVER", "1");
    tests
}

pub(crate) fn run() -> Result<()> {
    run_all()?;
    println!("\nall checks passed");
    Ok(())
}

/// Checks licences, sources and bans. Advisories need a download, so you check them by hand:
/// `cargo deny check advisories`.
fn deny() -> Result<()> {
    let tools = root().join("target/tools");
    let program = tools.join("bin/cargo-deny");
    if !program.is_file() {
        let version = format!("={DENY_VERSION}");
        let mut install = command(
            "cargo",
            &["install", "cargo-deny", "--locked", "--quiet", "--no-default-features", "--version", &version],
        );
        // cargo-deny runs for about a second, so a fast build matters more than a fast program.
        install
            .arg("--root")
            .arg(&tools)
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
            .env("CARGO_PROFILE_RELEASE_LTO", "false")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        shell::run("installing cargo-deny", &mut install)?;
    }
    shell::run(
        "dependency rules",
        &mut command(program, &["--log-level", "warn", "check", "bans", "licenses", "sources"]),
    )
}

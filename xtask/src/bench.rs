//! `cargo xtask bench`: installs the peers of a benchmark and runs it.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};

use crate::shell::{self, command, exists, root};
use crate::{debian, python, ui, weights};

/// The extraction peers. All versions are exact, so that figures stay comparable and a new release breaks nothing.
const JSON_REPAIR: &str = "json_repair==0.64.2";
const JSONREPAIR: &str = "jsonrepair@3.15.0";

/// The Python packages of the conformance benchmark: the model server, the peers and the validator. Instructor needs an
/// older `jiter` than later versions of `openai`, which Pydantic AI 2.39 and later require.
const CONFORMANCE: [&str; 6] = [
    "llama-cpp-python[server]==0.3.36",
    "instructor==1.17.0",
    "openai==3.3.0",
    "pydantic-ai-slim[openai]==2.38.0",
    "baml-py==0.226.3",
    "jsonschema==4.26.0",
];

/// The Python packages of the overhead benchmark.
const OVERHEAD: [&str; 2] = ["instructor==1.17.0", "openai==3.3.0"];

/// The Python package whose server is compared with the MCP server, and the number of calls.
const MCP_OVERHEAD: [&str; 1] = ["fastmcp==4.1.2"];
const MCP_CALLS: &str = "600";

/// The Python packages of the gateway benchmark: two gateways. LiteLLM requires a later `certifi` than the index may have;
/// the benchmark uses no certificates.
const GATEWAY: [&str; 2] = ["tensorzero==2026.6.0", "litellm[proxy]==1.108.7"];
const GATEWAY_OVERRIDES: [&str; 1] = ["certifi>=2026"];

/// The order of the table: Slipform's defaults, the peers, then single strategies.
const CONTESTANTS: &str = "slipform:embedded,slipform:auto,server,gateway:openai,instructor,gateway:instructor,pydantic-ai,\
                           gateway:pydantic-ai,baml,slipform:native,slipform:tool,slipform:system_prompt,slipform:prompt";

pub(crate) fn run(name: &str, rest: &[String]) -> Result<()> {
    match name {
        "extract" => extract(),
        "conformance" => conformance(rest),
        "correction" => run_alone("correction"),
        "overhead" => overhead(),
        "grammar" => grammar(rest),
        "embedded" => embedded(rest),
        "queue" => queue(rest),
        "gateway" => gateway(rest),
        "ui" => ui(rest),
        other => {
            bail!(
                "benchmark `{other}` not found; use extract, conformance, correction, overhead, grammar, embedded, queue, \
                 gateway or ui"
            )
        }
    }
}

/// Measures valid results on a real model: of the shipped agents, and of Slipform beside the peers on the same tasks,
/// server and seed. The argument `shipped` selects only the shipped agents.
fn conformance(rest: &[String]) -> Result<()> {
    let python = install_conformance()?;
    let (folder, model) = (root().join("target/conformance"), model()?);
    let scripts = root().join("benches/conformance");
    let (only_shipped, rest) = match rest {
        [first, rest @ ..] if first == "shipped" => (true, rest),
        rest => (false, rest),
    };
    let mut shipped = Command::new(&python);
    shipped.current_dir(&scripts).arg("shipped.py").arg("--out").arg(folder.join("shipped.jsonl"));
    shipped.env("SLIPFORM_MODEL", &model).args(if only_shipped { rest } else { &[] });
    shell::run("bench conformance: shipped agents", &mut shipped)?;
    if only_shipped {
        return Ok(());
    }
    let out = folder.join("rows.jsonl");
    let mut script = Command::new(python);
    script.current_dir(&scripts).arg("bench.py").arg("--model").arg(&model).arg("--out").arg(out);
    script.env("SLIPFORM_MODEL", model);
    script.args(["--peers", CONTESTANTS]).args(rest);
    shell::run("bench conformance", &mut script)
}

/// Builds `slipform` in release mode, pulls the weights with it and returns their path.
fn model() -> Result<PathBuf> {
    shell::run(
        "building slipform",
        &mut command("cargo", &["build", "--release", "--quiet", "--package", "slipform"]),
    )?;
    weights::pull(&root().join("target/release/slipform"))
}

/// Measures real schemas on the embedded model.
fn grammar(rest: &[String]) -> Result<()> {
    let model = model()?;
    let arguments = ["run", "--release", "--quiet", "--package", "slipform-benches", "--", "grammar"];
    shell::run("bench grammar", command("cargo", &arguments).arg("--model").arg(model).args(rest))
}

/// Measures the speed of the embedded model beside llama.cpp. The argument `llama` uses llama.cpp in process.
fn embedded(rest: &[String]) -> Result<()> {
    let (python, model) = (install_conformance()?, model()?);
    let features: &[&str] = match rest {
        [] => &[],
        [runtime] if runtime == "llama" => &["--features", "llama"],
        _ => bail!("usage: cargo xtask bench embedded [llama]"),
    };
    let arguments = ["run", "--release", "--quiet", "--package", "slipform-benches"];
    let mut bench = command("cargo", &arguments);
    bench.args(features).args(["--", "embedded"]).arg(model).arg(python);
    shell::run("bench embedded", &mut bench)
}

/// Measures the screens of the dashboard in Chromium beside the API's answers.
fn ui(rest: &[String]) -> Result<()> {
    ui::build()?;
    shell::run(
        "building slipform",
        &mut command("cargo", &["build", "--release", "--quiet", "--package", "slipform"]),
    )?;
    ui::bench(&root().join("target/release/slipform"), rest)
}

/// Runs a benchmark without peers.
fn run_alone(name: &str) -> Result<()> {
    let arguments = ["run", "--release", "--quiet", "--package", "slipform-benches", "--", name];
    shell::run(&format!("bench {name}"), &mut command("cargo", &arguments))
}

/// Measures runs per second over HTTP beside bare loops on the same databases. The server is built without the
/// embedded model, which it does not use.
fn queue(rest: &[String]) -> Result<()> {
    let build = ["build", "--release", "--quiet", "--package"];
    shell::run("building the server", command("cargo", &build).args(["slipform", "--no-default-features"]))?;
    shell::run("building the load generator", command("cargo", &build).arg("slipform-queue-bench"))?;
    let mut bench = Command::new(root().join("target/release/slipform-queue-bench"));
    bench.arg("--server").arg(root().join("target/release/slipform")).args(rest);
    shell::run("bench queue", &mut bench)
}

/// Measures requests to plain models through the gateway beside nginx, TensorZero and the LiteLLM proxy. All are measured as
/// they are published, so the server is built with the profile `dist`.
fn gateway(rest: &[String]) -> Result<()> {
    let missing: Vec<&str> =
        ["nginx", "wrk"].into_iter().filter(|program| find_program(program).is_none()).collect();
    if !missing.is_empty() {
        debian::install(&missing.join(" and "), &missing)?;
    }
    let python = python::install_with_overrides("gateway", &GATEWAY, &GATEWAY_OVERRIDES)?.join("python");
    let build = ["build", "--profile", "dist", "--quiet", "--package", "slipform"];
    shell::run("building slipform", &mut command("cargo", &build))?;
    let mut bench = Command::new(python);
    bench.arg(root().join("benches/gateway/bench.py")).arg(root().join("target/dist/slipform"));
    shell::run("bench gateway", bench.args(rest))
}

/// Returns the path of a program. Debian installs servers into `/usr/sbin`, which is outside the `PATH` of most users.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Measures CPU time per call beside a bare client and Instructor, and a tool call over MCP beside an API call and FastMCP.
fn overhead() -> Result<()> {
    let python = python::install("overhead", &OVERHEAD)?.join("python");
    let mut bench =
        command("cargo", &["run", "--release", "--quiet", "--package", "slipform-benches", "--", "overhead"]);
    shell::run("bench overhead", bench.arg(python))?;
    let build = ["build", "--release", "--quiet", "--package", "slipform", "--no-default-features"];
    shell::run("building the server", &mut command("cargo", &build))?;
    let python = python::install("mcp-overhead", &MCP_OVERHEAD)?.join("python");
    let mut bench = Command::new(python);
    bench.arg(root().join("benches/peers/mcp_overhead.py")).arg(root().join("target/release/slipform"));
    shell::run("bench overhead of MCP", bench.arg(MCP_CALLS))
}

/// Installs the packages of the conformance benchmark and returns their Python. Compiling the model server takes about ten
/// minutes.
fn install_conformance() -> Result<PathBuf> {
    Ok(python::install("conformance", &CONFORMANCE)?.join("python"))
}

fn extract() -> Result<()> {
    install_python_peer()?;
    install_node_peer()?;
    shell::run(
        "bench extract",
        &mut command(
            "cargo",
            &["run", "--release", "--quiet", "--package", "slipform-benches", "--", "extract"],
        ),
    )
}

fn install_python_peer() -> Result<()> {
    if exists("python3") {
        python::install("peers/python", &[JSON_REPAIR])?;
    } else {
        println!("python3 not found; the table has no column for json_repair");
    }
    Ok(())
}

fn install_node_peer() -> Result<()> {
    let folder = root().join("target/peers/node");
    if folder.join("node_modules/jsonrepair").is_dir() {
        return Ok(());
    }
    if !exists("npm") {
        println!("npm not found; the table has no column for npm jsonrepair");
        return Ok(());
    }
    fs::create_dir_all(&folder).context("cannot create the peer's folder")?;
    fs::write(folder.join("package.json"), "{\"private\": true}\n")
        .context("cannot write the peer's package.json")?;
    shell::run("npm jsonrepair", command("npm", &["install", "--silent", JSONREPAIR]).current_dir(&folder))
}

//! `cargo xtask bench`: the benchmarks, with their peers installed first.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::shell::{self, command, exists, root};

/// The peers' versions, so that figures can be compared over time.
const JSON_REPAIR: &str = "json_repair==0.64.*";
const JSONREPAIR: &str = "jsonrepair@3.15";

pub(crate) fn run(name: &str) -> Result<()> {
    match name {
        "extract" => extract(),
        other => bail!("there is no benchmark '{other}'; there is: extract"),
    }
}

fn extract() -> Result<()> {
    install_python_peer()?;
    install_node_peer()?;
    shell::run(
        "bench extract",
        &mut command(
            "cargo",
            &["run", "--release", "--quiet", "--package", "formwork-benches", "--", "extract"],
        ),
    )
}

fn install_python_peer() -> Result<()> {
    let environment = root().join("target/peers/python");
    if environment.join("installed").is_file() {
        return Ok(());
    }
    if !exists("python3") {
        println!("python3 is missing: the table will have no column for json_repair");
        return Ok(());
    }
    let folder = environment.to_string_lossy().into_owned();
    shell::run("python environment", &mut command("python3", &["-m", "venv", &folder]))?;
    shell::run(
        "json_repair",
        &mut command(environment.join("bin/pip"), &["install", "--quiet", JSON_REPAIR]),
    )?;
    fs::write(environment.join("installed"), "").context("marking the peer as installed")
}

fn install_node_peer() -> Result<()> {
    let folder = root().join("target/peers/node");
    if folder.join("node_modules/jsonrepair").is_dir() {
        return Ok(());
    }
    if !exists("npm") {
        println!("npm is missing: the table will have no column for npm jsonrepair");
        return Ok(());
    }
    fs::create_dir_all(&folder).context("making a folder for the peer")?;
    fs::write(folder.join("package.json"), "{\"private\": true}\n")
        .context("describing the peer's folder")?;
    shell::run("npm jsonrepair", command("npm", &["install", "--silent", JSONREPAIR]).current_dir(&folder))
}

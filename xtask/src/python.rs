//! Installs Python packages into separate virtual environments.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::shell::{self, command, exists, root};

/// Installs packages into `target/NAME` and returns the folder with their programs. Does nothing if the same versions
/// are installed.
pub(crate) fn install(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = root().join("target").join(name);
    let programs = folder.join("bin");
    let python = programs.join("python");
    let (marker, requirements) = (folder.join("installed"), packages.join("\n"));
    if python.is_file() && fs::read_to_string(&marker).is_ok_and(|installed| installed == requirements) {
        return Ok(programs);
    }
    if !exists("python3") {
        bail!("python3 not found; install it: {name} is a Python program");
    }
    shell::run("python environment", command("python3", &["-m", "venv"]).arg(&folder))?;
    let mut install = command(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    shell::run(&format!("installing {name}"), install.args(packages))?;
    fs::write(marker, requirements).with_context(|| format!("cannot mark {name} as installed"))?;
    Ok(programs)
}

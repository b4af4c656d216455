//! Pulls the embedded model's weights with the built `slipform` command.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::shell::command;

/// Pulls the weights with this `slipform` and returns their path. The weights stay in the user's cache.
pub(crate) fn pull(slipform: &Path) -> Result<PathBuf> {
    println!("\n=== the embedded model's weights");
    let start = Instant::now();
    let mut pull = command(slipform, &["model", "pull"]);
    let output = pull
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", slipform.display()))?;
    if !output.status.success() {
        bail!("`slipform model pull` failed ({})", output.status);
    }
    println!("=== the embedded model's weights: {:.0} s", start.elapsed().as_secs_f64());
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

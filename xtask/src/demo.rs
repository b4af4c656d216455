//! `cargo xtask demo`: the main job on a sample.

use std::fs::File;

use anyhow::{Context as _, Result};

use crate::shell::{self, command, root};
use crate::weights;

pub(crate) fn run() -> Result<()> {
    shell::run(
        "building slipform (the first time ten minutes or so on two cores)",
        &mut command("cargo", &["build", "--release", "--quiet", "--package", "slipform"]),
    )?;
    let slipform = root().join("target/release/slipform");
    weights::pull(&slipform)?;
    let folder = root().join("examples/tickets");
    println!("\nA support ticket (examples/tickets/ticket.txt):\n");
    shell::run("the ticket", command("cat", &["ticket.txt"]).current_dir(&folder))?;
    println!("\n$ cd examples/tickets && slipform run triage -p - --backend embedded --receipt < ticket.txt");
    let ticket = File::open(folder.join("ticket.txt")).context("reading the ticket")?;
    let mut run = command(&slipform, &["run", "triage", "-p", "-", "--backend", "embedded", "--receipt"]);
    shell::run(
        "valid JSON from the model inside the process, and its receipt",
        run.current_dir(&folder).stdin(ticket),
    )
}

//! `cargo xtask demo`: runs an agent on the embedded model with a sample ticket.

use std::fs::File;

use anyhow::{Context as _, Result};

use crate::shell::{self, command, root};
use crate::{ui, weights};

pub(crate) fn run() -> Result<()> {
    ui::build()?;
    shell::run(
        "building slipform (the first build takes about ten minutes on two cores)",
        &mut command("cargo", &["build", "--release", "--quiet", "--package", "slipform"]),
    )?;
    let slipform = root().join("target/release/slipform");
    weights::pull(&slipform)?;
    let folder = root().join("examples/tickets");
    println!("\nA support ticket (examples/tickets/ticket.txt):\n");
    shell::run("the ticket", command("cat", &["ticket.txt"]).current_dir(&folder))?;
    println!("\n$ cd examples/tickets && slipform run triage -p - --backend embedded --receipt < ticket.txt");
    let ticket = File::open(folder.join("ticket.txt")).context("cannot open examples/tickets/ticket.txt")?;
    let mut run = command(&slipform, &["run", "triage", "-p", "-", "--backend", "embedded", "--receipt"]);
    shell::run("valid JSON from the embedded model, with its receipt", run.current_dir(&folder).stdin(ticket))
}

//! `cargo xtask demo`: the main job on a sample.

use anyhow::Result;

use crate::shell::{self, command, root};

pub(crate) fn run() -> Result<()> {
    shell::run(
        "building formwork",
        &mut command("cargo", &["build", "--release", "--quiet", "--package", "formwork"]),
    )?;
    println!("\nA model was asked for a code review as JSON, and wrote (examples/review/reply.txt):\n");
    shell::run("the reply", &mut command("cat", &["examples/review/reply.txt"]))?;
    println!(
        "\n$ formwork check --schema examples/review/schema.json --mode lenient --receipt examples/review/reply.txt"
    );
    let arguments = [
        "check",
        "--schema",
        "examples/review/schema.json",
        "--mode",
        "lenient",
        "--receipt",
        "examples/review/reply.txt",
    ];
    shell::run(
        "valid JSON, and every change made to get it",
        &mut command("target/release/formwork", &arguments),
    )?;
    println!(
        "\nAn agent whose model (a program plays it) gets one value wrong and is asked for that part again:"
    );
    println!("\n$ cd examples/standin && formwork run reviewer -p \"the change\" --receipt");
    let mut run = command(
        root().join("target/release/formwork"),
        &["run", "reviewer", "-p", "the change", "--receipt"],
    );
    shell::run(
        "valid JSON from an agent, and how it came about",
        run.current_dir(root().join("examples/standin")),
    )
}

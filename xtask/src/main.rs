//! The project's development commands: `cargo xtask test`, `tidy`, `demo`, `ui`, `install`, `bench` and `torture`.
//!
//! Each command installs its dependencies: Python and Node packages under `target/`, PostgreSQL with apt-get. A new
//! machine needs only Rust, Python, Node and a package manager.
//!
//! - `test`: everything that CI runs. `tidy`: rules that the compiler does not know. `demo`: an agent on the embedded model. `bench`: the benchmarks.
//!   `torture`: random kills under load.
//! - `ui`: builds the dashboard. `install`: builds and installs the command with it.
//! - `debian`, `postgres`, `python`, `node`, `mcp`, `gateway`, `weights`: install or start the dependencies.
//! - `shell`: runs other programs from the repository root.
//!
//! Not in this crate: the benchmarks (`benches/`) and the fault tests (`crates/cli/tests/faults`).
//!
//! ```console
//! $ cargo xtask test
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

mod bench;
mod debian;
mod demo;
mod gateway;
mod mcp;
mod node;
mod postgres;
mod python;
mod shell;
mod test;
mod tidy;
mod torture;
mod ui;
mod weights;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test           run everything that CI runs: format, tidy, lints, tests, docs, dependency rules
  tidy           check file and function sizes, module layout, wording and purity of the core crates
  demo           run an agent on the embedded model with a sample ticket
  ui             build the dashboard, which the next build of slipform embeds
  install        build slipform with the dashboard and install it with cargo
  bench [NAME]   run a benchmark: extract (default), conformance, correction, overhead, grammar, embedded, queue,
                 gateway, ui
  torture [--kills N] [--store sqlite|postgres] [--seed S]
                 kill coordinators and runners at random times under load [default: 500 kills on each store]";

/// Builds the command with the dashboard and installs it.
fn install() -> anyhow::Result<()> {
    ui::build()?;
    let mut install = shell::command("cargo", &["install", "--locked", "--path", "crates/cli"]);
    shell::run("installing slipform", &mut install)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("test") => test::run(),
        Some("tidy") => tidy::run(),
        Some("demo") => demo::run(),
        Some("ui") => ui::build(),
        Some("install") => install(),
        Some("bench") => {
            let name = arguments.get(1).map_or("extract", String::as_str);
            bench::run(name, arguments.get(2..).unwrap_or_default())
        }
        Some("torture") => torture::run(arguments.get(1..).unwrap_or_default()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

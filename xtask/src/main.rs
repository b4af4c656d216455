//! The project's own commands: `cargo xtask test`, `demo`, `bench` and `torture`.
//!
//! Each installs what it needs, so that a fresh machine with Rust, Python, Node and a package manager
//! can run them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

mod bench;
mod demo;
mod mcp;
mod postgres;
mod python;
mod shell;
mod test;
mod torture;
mod weights;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test           everything CI runs: format, lints, tests, docs, dependency rules
  demo           the main job, on a sample: an agent on the embedded model
  bench [NAME]   the benchmarks beside their peers: extract, conformance, correction, overhead, grammar, embedded,
                 queue
  torture [--kills N] [--store sqlite|postgres] [--seed S]
                 kills coordinators and runners at random moments under load: 500 kills on each store unless told";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("test") => test::run(),
        Some("demo") => demo::run(),
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

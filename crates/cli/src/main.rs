//! The `formwork` command: arguments in, verbs out.
//!
//! Data goes to stdout, everything else to stderr, and the exit status is typed: 0 valid, 1 not valid,
//! 2 bad usage or schema, 4 no JSON found.

mod arguments;
mod check;
mod exit;
mod jsonl;
mod output;
mod schemas;
mod source;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::Parser as _;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&error),
    };
    let outcome = match arguments.command {
        Command::Check(check) if check.jsonl.is_some() => jsonl::run(&check),
        Command::Check(check) => check::run(&check),
        Command::Schemas(schemas) => schemas::run(&schemas),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => output::failure(&error),
    }
}

//! The `slipform` command: arguments in, verbs out.
//!
//! Data goes to stdout, everything else to stderr, and the exit status is typed: 0 valid, 1 not valid,
//! 2 bad usage, config, agent or schema, 3 backend unreachable, 4 no JSON found, 130 interrupted.

mod admin_token;
mod agents;
mod analytics;
mod arguments;
mod backends;
mod check;
mod coordinator;
mod exit;
mod jsonl;
mod local_resources;
mod logging;
#[cfg(feature = "embedded")]
mod model;
#[cfg(not(feature = "embedded"))]
#[path = "model/absent.rs"]
mod model;
mod output;
mod pretty;
mod probe;
mod run;
mod runner;
mod runs;
mod schemas;
mod secrets;
mod serve;
mod sessions;
mod settings;
mod signals;
mod source;
mod stats;
mod token;

use std::collections::BTreeMap;
use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::Parser as _;

/// The system's own gives memory back after every commit and takes it again for the next.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hide_memory();
    secrets::remember(secrets::collect(&BTreeMap::new()));
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&error),
    };
    let outcome = match arguments.command {
        Command::Check(check) if check.jsonl.is_some() => jsonl::run(&check),
        Command::Check(check) => check::run(&check),
        Command::Run(run) => run::run(&run),
        Command::Orchestrate(orchestrate) => run::run(&orchestrate.into()),
        Command::Agents(agents) => agents::run(&agents),
        Command::Model(model) => model::run(&model),
        Command::Probe(probe) => probe::run(&probe),
        Command::Schemas(schemas) => schemas::run(&schemas),
        Command::Sessions(sessions) => sessions::run(&sessions),
        Command::Runs(runs) => runs::run(&runs),
        Command::Stats(stats) => stats::run(&stats),
        Command::Serve(serve) => serve::run(&serve),
        Command::Runner(runner) => runner::run(&runner),
        Command::Token(token) => token::run(&token),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => output::failure(&error),
    }
}

/// Keeps other processes of the same user from reading this one's memory and environment, where keys are. Programs that
/// agents start are such processes.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Old kernels and sandboxes may refuse; nothing else depends on it.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

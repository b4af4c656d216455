//! The `slipform` command: parses arguments, runs one command and prints its result.
//!
//! Data goes to stdout and messages go to stderr. The exit status is 0 for a valid result, 1 for an invalid one, 2 for bad
//! usage, settings, agents or schemas, 3 for an unreachable backend, 4 if no JSON was found and 130 if interrupted.
//!
//! Modules, in reading order:
//!
//! - `arguments`: commands, flags and help texts
//! - `exit`, `output`, `pretty`: exit statuses, stdout and stderr, results as formatted text
//! - `settings`, `secrets`, `logging`, `signals`: settings file and environment, redaction, logs and spans, termination
//! - `source`: texts and schemas from files, stdin and `schemas/`
//! - `check`, `jsonl`: `slipform check` for one and for many texts
//! - `coordinator`: the coordinator of a command, in this process or over HTTP, behind one trait
//! - `local_coordinator`, `admin_token`: the store of this project with its runner, and the token of a local server
//! - `database`: the address of the coordinator's database, its password, and waiting for PostgreSQL
//! - `backends`, `local_resources`: connected backends, and everything else that runs in this process use
//! - `run`: `slipform run` and `slipform orchestrate`
//! - `waiting`: runs without a runner, and the end of stopped runs
//! - `agents`, `schemas`, `sessions`, `runs`, `stats`, `analytics`: commands that manage and read a project
//! - `serve`, `runner`, `token`, `backup`: the service, its runners, its tokens and copies of its database
//! - `mcp`: agents as tools of an MCP client
//! - `probe`, `model`: backend tests, and the weights of the embedded model
//!
//! ```console
//! $ slipform agents init summarizer
//! $ slipform run summarizer -p "The meeting is on Monday."
//! ```
//!
//! Not in this crate: enforcement and the tool loop (`engine`), execution of runs (`runner`), storage and scheduling
//! (`coordinator`, `store`), HTTP types and the client (`api`).

mod admin_token;
mod agents;
mod analytics;
mod arguments;
mod backends;
mod backup;
mod check;
mod connections;
mod coordinator;
mod dashboard;
mod database;
mod demo;
mod exit;
mod file_limit;
mod gateway;
mod jsonl;
mod local_coordinator;
mod local_resources;
mod logging;
mod mcp;
#[cfg(feature = "embedded")]
mod model;
#[cfg(not(feature = "embedded"))]
mod model_absent;
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
mod waiting;

use std::collections::BTreeMap;
use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::Parser as _;
#[cfg(not(feature = "embedded"))]
use model_absent as model;

/// The system allocator returns memory to the kernel after every commit and requests it again for the next one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hide_memory();
    secrets::install(secrets::collect(&BTreeMap::new()));
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&error),
    };
    if let Err(error) = database::hide_argument(arguments.command.database()) {
        return output::failure(&error);
    }
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
        Command::Mcp(mcp) => mcp::run(&mcp),
        Command::Backup(backup) => backup::run(&backup),
        Command::Token(token) => token::run(&token),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => output::failure(&error),
    }
}

/// Prevents other processes of the same user from reading this process's memory and environment, which contain keys.
/// Programs that agents start are such processes.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Old kernels and sandboxes may refuse it; the command works without it.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

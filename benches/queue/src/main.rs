//! `cargo xtask bench queue`: runs per second through `slipform serve` over HTTP, beside bare loops that write the same
//! rows to the same databases.
//!
//! A run takes seven requests: create, claim, four appends and finish. The server answers each one after its commit is
//! on disk. The server is a separate process on a real socket; the client is one thread of this program.
//!
//! - `work`: the agent and the request bodies of a run.
//! - `server`: the measured process. `http`: the client's connections. `load`: workers that create and finish runs.
//! - `latency`: the time from creation to claim. `readers`: event streams beside the load.
//! - `bare`: the SQLite peer, a loop of inserts. `postgres`: the PostgreSQL peer, pgbench.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "reports go to the terminal")]

mod bare;
mod http;
mod latency;
mod load;
mod postgres;
mod readers;
mod server;
mod work;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use bare::Commits;
use latency::quantile;
use load::Measured;
use postgres::PrivateServer;
use server::{Server, cpu_seconds};
use work::REQUESTS;

/// The number of event streams that are open during the load.
const READERS: usize = 1_000;

/// The number of runs between two memory samples.
const MEMORY_EVERY: usize = 5_000;

/// The number of runs of `--memory`.
const MEMORY_RUNS: usize = 100_000;

/// Rounds of Slipform and its peer in turns. Every round is printed, since other load on the machine changes figures.
const ROUNDS: usize = 3;

/// The numbers of pgbench clients: the store's number of connections, and more. The better result counts. With one
/// client per concurrent run pgbench is far slower.
const PGBENCH_CLIENTS: [usize; 2] = [12, 32];

struct Options {
    server: PathBuf,
    /// Runs per round.
    runs: usize,
    /// Concurrent runs, each over a separate connection.
    connections: usize,
    sqlite: bool,
    postgres: bool,
    memory: bool,
    /// Runs only the load on SQLite, for a profiler.
    only_load: bool,
}

const USAGE: &str =
    "usage: cargo xtask bench queue [--runs N] [--connections N] [--store sqlite|postgres|both] [--memory]";

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            server: PathBuf::from("target/release/slipform"),
            runs: 4_000,
            connections: 128,
            sqlite: true,
            postgres: true,
            memory: false,
            only_load: false,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().context(USAGE);
            match argument.as_str() {
                "--server" => options.server = value()?.into(),
                "--runs" => options.runs = value()?.parse().context(USAGE)?,
                "--connections" => options.connections = value()?.parse().context(USAGE)?,
                "--store" => {
                    let store = value()?;
                    options.sqlite = matches!(store.as_str(), "sqlite" | "both");
                    options.postgres = matches!(store.as_str(), "postgres" | "both");
                }
                "--memory" => options.memory = true,
                "--only-load" => options.only_load = true,
                _ => bail!(USAGE),
            }
        }
        options.server = options
            .server
            .canonicalize()
            .context("server binary not found; run `cargo build --release --package slipform`")?;
        Ok(options)
    }
}

/// A temporary folder beside the program, so that it is on a disk and not in memory. Dropping it deletes the folder.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch> {
        let program = std::env::current_exe()?;
        let parent = program.parent().context("no folder")?;
        let folder = parent.join(format!("queue-bench-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::parse(&arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let scratch = Scratch::new()?;
    runtime.block_on(run(&options, &scratch.0))
}

async fn run(options: &Options, scratch: &Path) -> Result<()> {
    println!(
        "\n## Queue: {} runs per round, {} concurrent, {REQUESTS} requests each, one machine\n",
        options.runs, options.connections
    );
    if options.only_load {
        let server = Server::start(&options.server, &scratch.join("project"), "load.db")?;
        println!("server {}", server.id());
        let (measured, _) = load::run(&server, options.connections, options.runs).await?;
        print_measured("slipform, SQLite", &measured);
        return Ok(());
    }
    if options.memory {
        return memory(options, scratch).await;
    }
    if options.sqlite {
        sqlite(options, scratch).await?;
    }
    if options.postgres {
        postgres(options, scratch).await?;
    }
    Ok(())
}

/// Prints the rates and the CPU time of a load.
fn print_measured(name: &str, measured: &Measured) {
    let cpu = |seconds: f64| seconds / measured.runs as f64 * 1e6;
    println!(
        "{name}: {:.0} runs/s, {:.0} requests/s; CPU per run: server {:.0} µs, client {:.0} µs ({:.0} % of the sum)",
        measured.rate(),
        measured.requests(),
        cpu(measured.server_cpu),
        cpu(measured.client_cpu),
        measured.client_cpu / (measured.client_cpu + measured.server_cpu) * 100.0
    );
}

async fn sqlite(options: &Options, scratch: &Path) -> Result<()> {
    let project = scratch.join("project");
    let template = scratch.join("bare.db");
    {
        let server = Server::start(&options.server, &project, &format!("sqlite:{}", template.display()))?;
        load::run(&server, 1, 1).await?;
    }
    let server = Server::start(&options.server, &project, "load.db")?;
    load::run(&server, options.connections, options.runs / 4).await?;
    let (mut ours, mut theirs, mut rates, mut largest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let committed = load::commits(&server).await?;
        let (measured, _) = load::run(&server, options.connections, options.runs).await?;
        print_measured("slipform, SQLite, synchronous=FULL", &measured);
        let committed = load::commits(&server).await? - committed;
        let requests = (options.runs * REQUESTS) as f64 / committed as f64;
        // Once in the commit size of the server, and once in the largest possible one.
        for (steps, is_server_size) in [(requests.round() as usize, true), (options.connections, false)] {
            let path = scratch.join(format!("bare-{round}-{steps}.db"));
            bare::copy(&template, &path)?;
            let cpu = cpu_seconds("self")?;
            let took = bare::run(&path, options.connections, steps, options.runs)?;
            let cpu = (cpu_seconds("self")? - cpu) / options.runs as f64 * 1e6;
            let bare = options.runs as f64 / took.as_secs_f64();
            println!(
                "bare loop, {steps} requests per commit: {bare:.0} runs/s, CPU {cpu:.0} µs per run; slipform reaches {:.0} %",
                measured.rate() / bare * 100.0
            );
            if is_server_size {
                theirs.push(bare);
                rates.push(measured.rate() / bare);
            } else {
                largest.push(measured.rate() / bare);
            }
        }
        ours.push(measured.rate());
    }
    println!(
        "SQLite, median: {:.0} runs/s (target: 2,000); {:.0} % of the bare loop's {:.0} with the same commit size (target: \
         40 %), {:.0} % of it with {} requests per commit",
        median(&mut ours),
        median(&mut rates) * 100.0,
        median(&mut theirs),
        median(&mut largest) * 100.0,
        options.connections
    );
    dispatch(options, scratch, &server, median(&mut ours) / 2.0).await?;
    let before = server.memory_mib()?;
    let (alone, _) = load::run(&server, options.connections, options.runs).await?;
    let followed = readers::measure(&server, options.connections, READERS, ROUNDS).await?;
    println!();
    print_measured(&format!("with {READERS} event streams"), &followed.measured);
    println!(
        "{} of {} readers received every event in order; {:.0} % of the {:.0} runs/s without them; memory {before:.0} → {:.0} MiB",
        followed.complete,
        followed.readers,
        followed.measured.rate() / alone.rate() * 100.0,
        alone.rate(),
        followed.memory_mib
    );
    Ok(())
}

/// Measures the time from the creation of a run to its claim by a waiting runner. The unit is the time of a durable
/// commit on the same disk at the same time.
async fn dispatch(options: &Options, scratch: &Path, server: &Server, rate: f64) -> Result<()> {
    println!();
    let (mut medians, mut tails) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let commits = Commits::start(scratch.join(format!("commit-{round}.db")));
        let latencies = latency::measure(server, options.connections / 2, rate, options.runs).await?;
        let commits = commits.end()?;
        let commit = quantile(&commits, 0.5);
        let (p50, p99) = (quantile(&latencies, 0.5), quantile(&latencies, 0.99));
        println!(
            "dispatch at {rate:.0} runs/s: p50 {:.2} ms, p99 {:.2} ms; a durable commit {:.2} ms, p99 {:.2} ms: p50 \
             {:.1} and p99 {:.1} commits",
            p50 * 1e3,
            p99 * 1e3,
            commit * 1e3,
            quantile(&commits, 0.99) * 1e3,
            p50 / commit,
            p99 / commit
        );
        medians.push(p50 / commit);
        tails.push(p99 / commit);
    }
    println!(
        "dispatch, median: p50 {:.1} commits (target: 3), p99 {:.1} commits (target: 15)",
        median(&mut medians),
        median(&mut tails)
    );
    Ok(())
}

async fn postgres(options: &Options, scratch: &Path) -> Result<()> {
    let Some(database_server) = PrivateServer::start(&scratch.join("postgres"))? else {
        println!("\nPostgreSQL not found; its part is skipped");
        return Ok(());
    };
    let project = scratch.join("project");
    let peer = database_server.create_database("peer")?;
    {
        let server = Server::start(&options.server, &project, &peer)?;
        load::run(&server, 1, 1).await?;
    }
    let server = Server::start(&options.server, &project, &database_server.create_database("ours")?)?;
    println!();
    load::run(&server, options.connections, options.runs / 8).await?;
    let (mut ours, mut theirs, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut bench = f64::MIN;
        for clients in PGBENCH_CLIENTS {
            bench = bench.max(database_server.pgbench("peer", clients, options.runs / 2)?);
        }
        let (measured, _) = load::run(&server, options.connections, options.runs / 2).await?;
        print_measured("slipform, PostgreSQL", &measured);
        println!("pgbench: {bench:.0} runs/s; slipform reaches {:.0} %", measured.rate() / bench * 100.0);
        ours.push(measured.rate());
        theirs.push(bench);
        rates.push(measured.rate() / bench);
    }
    println!(
        "PostgreSQL, median: {:.0} runs/s, {:.0} % of pgbench's {:.0} (target: 60 %)",
        median(&mut ours),
        median(&mut rates) * 100.0,
        median(&mut theirs)
    );
    Ok(())
}

async fn memory(options: &Options, scratch: &Path) -> Result<()> {
    let server = Server::start(&options.server, &scratch.join("project"), "memory.db")?;
    let runs = MEMORY_RUNS.max(options.runs);
    let mut sampled = Vec::new();
    for done in (MEMORY_EVERY..=runs).step_by(MEMORY_EVERY) {
        let (measured, _) = load::run(&server, options.connections, MEMORY_EVERY).await?;
        let memory = server.memory_mib()?;
        println!("{done} runs: {memory:.1} MiB, {:.0} runs/s", measured.rate());
        sampled.push(memory);
    }
    let most = sampled.iter().copied().fold(0.0, f64::max);
    println!(
        "memory over {runs} runs: {:.1} MiB after the first {MEMORY_EVERY}, {:.1} at the end, {most:.1} at most",
        sampled.first().copied().unwrap_or_default(),
        sampled.last().copied().unwrap_or_default()
    );
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

//! Fault tests with real processes: coordinators and runners are killed, paused and terminated, the database stops, and
//! stream connections are cut. Afterwards every acknowledged run and event must exist exactly once.
//!
//! - [`cluster`]: a project with its coordinator and runner processes, on SQLite or on [`postgres`].
//! - [`model`]: the model server. It records each request and marks each reply with the request's number.
//! - [`load`]: clients that submit runs. [`reader`]: a client that reads an event stream over short connections.
//! - [`records`]: reads all runs and journals over HTTP and from the database. [`consistency`]: checks them.
//! - [`http`], [`random`], [`wait`]: an HTTP client, seeded random numbers, polling with a deadline.
//! - The other modules are the tests, one per kind of fault.
//!
//! A seed determines the kills and their times; every failure prints it. `cargo xtask torture` runs more kills.
//!
//! - `SLIPFORM_TORTURE_KILLS`: the number of kills.
//! - `SLIPFORM_TORTURE_SEED`: the seed of an earlier run.
//! - `SLIPFORM_TEST_POSTGRES_BIN`: the folder with PostgreSQL's programs. Without it the tests search `PATH` and Debian's
//!   folder; without the programs they skip the PostgreSQL tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod cluster;
mod consistency;
mod coordinator_outage;
mod database_outage;
mod event_streams;
mod http;
mod keys;
mod load;
mod lost_run;
mod model;
mod postgres;
mod random;
mod reader;
mod records;
mod shutdown;
mod stale_runner;
mod torture;
mod wait;

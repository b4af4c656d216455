//! Fault tests with real processes: coordinators and runners are killed, paused and terminated, the database stops, its
//! disk is full or its files are moved, and stream connections are cut. Afterwards every acknowledged run and event must exist exactly once.
//!
//! - [`support::cluster`]: a project with its coordinator and runner processes, on SQLite or on PostgreSQL.
//! - [`support::model`]: the model server. It records each request and marks each reply with the request's number.
//! - [`support::load`]: clients that submit runs. [`support::reader`]: reads an event stream over short connections.
//! - [`support::records`]: reads all runs and journals over HTTP and from the database. [`support::consistency`]: checks
//!   them.
//! - [`support::clock`]: sets the time of day of a process. [`support::proxy`]: cuts connections of runners.
//! - [`support::http`], [`support::random`]: an HTTP client, seeded random numbers.
//! - The other modules are the tests, one per kind of fault.
//!
//! No test sleeps. A process is killed after a random number of requests, and an outage lasts until its effect was seen.
//!
//! A seed determines the kills and their order; every failure prints it. `cargo xtask torture` runs more kills.
//!
//! - `SLIPFORM_TORTURE_KILLS`: the number of kills.
//! - `SLIPFORM_TORTURE_SEED`: the seed of an earlier run.
//! - `SLIPFORM_TORTURE_TABLE`: a file to which the table's row is appended.
//! - `SLIPFORM_TEST_POSTGRES_BIN`: the folder with PostgreSQL's programs. Without it the tests search `PATH` and Debian's
//!   folder; without the programs they skip the PostgreSQL tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod clock_jump;
mod coordinator_outage;
mod database_files;
mod database_outage;
mod event_streams;
mod keys;
mod lost_run;
mod shutdown;
mod stale_runner;
mod support;
mod torture;

//! Runs driven by the runner: engine and backends over real sockets, programs that are really started, and workers
//! against a scripted coordinator on a paused clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod end_to_end;
mod replay;
mod runs;
mod spans;
mod strategies;
mod support;
mod worker;

//! Tests of the runner: engine and backends over real sockets, real programs, and workers against a fake
//! coordinator on a paused clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod end_to_end;
mod replay;
mod runs;
mod spans;
mod strategies;
mod support;
mod worker;

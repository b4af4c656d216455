//! Tests of child processes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "tests report what they skip")]

mod confinement;
mod programs;
mod support;

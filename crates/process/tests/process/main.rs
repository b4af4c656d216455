//! Tests of child processes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod programs;
mod support;

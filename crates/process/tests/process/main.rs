//! Tests of child processes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod confinement;
mod programs;
mod support;

//! Backends against a server that does what a test says, and programs that really run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod faults;
mod replies;
mod requests;
mod streams;
mod support;

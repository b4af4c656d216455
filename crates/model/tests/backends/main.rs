//! Backends against a server that does what a test says, and programs that really run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod command;
mod faults;
mod probe;
mod quirks;
mod replies;
mod requests;
mod secrets;
mod streams;
mod support;

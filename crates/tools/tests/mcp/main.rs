//! Tests the MCP client against published and misbehaving servers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod faults;
mod http;
mod official;
mod support;

//! MCP servers, real and misbehaving: what becomes of their tools and of their answers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod faults;
mod http;
mod official;
mod support;

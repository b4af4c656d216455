//! Backends against scripted servers and real programs: what they send, what they make of what comes back,
//! and how they end when it does not come.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod command;
mod command_ends;
mod concurrency;
mod keys;
mod probe;
mod quirks;
mod replies;
mod requests;
mod settings;
mod statuses;
mod streams;
mod support;
mod timeouts;

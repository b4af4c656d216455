//! Tests backends against scripted servers and real programs: requests, replies, errors and timeouts.
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

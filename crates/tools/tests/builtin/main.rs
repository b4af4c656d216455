//! Tests the built-in tools on real files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod checking;
mod code;
mod escapes;
mod finding;
mod reading;
mod relocating;
mod support;
mod writing;

//! Pulls of weights. They are in a process of their own, because they start it again to kill it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod pulls;
mod support;

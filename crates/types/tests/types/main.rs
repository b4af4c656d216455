//! Tests of the shared types.
#![allow(clippy::unwrap_used, reason = "tests")]

mod universal;

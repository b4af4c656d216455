//! Tests of agent files: reading, checking, and resolving contracts, parameters and placeholders.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod cases;
mod decisions;
mod load;
mod universal;

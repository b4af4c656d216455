//! Tests of the grammars, and of answers under them with the real weights.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests report what they skip")]

mod answers;
mod corpus;
mod grammar;

//! Slipform's benchmarks: accuracy and speed beside the peers, in one run.
//!
//! The corpora are read in place from the folder beside the checkout; without them there is nothing to
//! measure, and every entry point says so. Scoring is a library so that a test can hold the accuracy to
//! its targets.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "reports go to the terminal")]
#![allow(missing_docs, reason = "an internal tool")]

pub mod accuracy;
pub mod context;
pub mod corpus;
pub mod correction;
pub mod embedded;
pub mod grammar;
pub mod overhead;
pub mod peers;
pub mod report;
pub mod speed;

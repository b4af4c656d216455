//! Benchmarks of Slipform: accuracy, speed and overhead, each beside its peers in the same run.
//!
//! `cargo xtask bench NAME` installs the peers and runs one benchmark:
//!
//! ```console
//! $ cargo xtask bench extract
//! ```
//!
//! - [`corpus`]: reads the text corpora from `../shared/corpora` beside the checkout.
//! - [`accuracy`]: scores an extractor on every corpus. A library, so that `tests/accuracy` checks the targets.
//! - [`peers`]: the other extractors. [`report`]: the accuracy table.
//! - [`speed`]: extraction speed beside the Rust and scripted peers, and on hostile texts.
//! - [`correction`]: tokens per corrected result. [`overhead`]: CPU time per run beside a bare client and Instructor.
//! - [`grammar`]: real schemas answered by the embedded model. [`embedded`]: its speed beside llama.cpp.
//! - [`context`]: builds the run that these benchmarks perform.
//!
//! Not in this crate: the load on a coordinator (`benches/queue`) and the conformance benchmark (`benches/conformance`).
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

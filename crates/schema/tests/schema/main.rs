//! Schemas: compiling, validating, explaining, lowering, and the corpora of real ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod compact;
mod corpus;
mod hostile;
mod lower;
mod lowerbench;
mod schemabench;
mod suite;
mod universal;
mod violations;

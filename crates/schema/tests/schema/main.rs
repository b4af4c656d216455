//! Tests of compiling, validating, explaining and lowering schemas, including corpora of real schemas.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "tests print which corpora they skip")]

mod compact;
mod hostile;
mod lower;
mod lowerbench;
mod publish;
mod schemabench;
mod suite;
mod support;
mod universal;
mod violations;

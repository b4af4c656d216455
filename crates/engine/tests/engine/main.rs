//! The engine as a function over journals: cases as data, and journals in orders that it did not ask for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod cases;
mod expect;
mod journals;
mod script;

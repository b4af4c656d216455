//! The engine as a function over journals: cases as data, and journals in arbitrary event order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod cases;
mod journals;
mod support;

//! Tests of extraction: cases as data, properties of every text, and malicious texts.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod cases;
mod hostile;
mod properties;

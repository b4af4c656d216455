//! The model inside the process.

pub mod grammar;
pub mod runtime;

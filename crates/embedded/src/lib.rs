//! The model inside the process.

pub mod runtime;
pub mod weights;

//! The model inside the process.

mod error;
pub mod gguf;
pub mod runtime;

pub use error::Error;

//! The model inside the process.

mod error;
pub mod gguf;
pub mod runtime;
pub mod tokenizer;
pub mod weights;

pub use error::Error;

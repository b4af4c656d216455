//! The model inside the process.

mod error;
pub mod gguf;
pub mod runtime;
pub mod template;
pub mod tokenizer;

#[cfg(test)]
mod testing;

pub use error::Error;

//! The model inside the process.

mod ask;
mod decode;
mod error;
pub mod gguf;
pub mod grammar;
mod interrupt;
mod memory;
pub mod runtime;
mod sample;
pub mod tokenizer;
pub mod weights;

pub use decode::Timing;
pub use error::Error;
pub use interrupt::Interrupt;

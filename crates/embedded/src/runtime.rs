//! Evaluates a model: tokens in, logits out.
//!
//! - `candle`: the model graph of the llama family in Rust, over the matrices of `matrix`.
//! - `shape`: the sizes of a model, from its metadata.
//! - `linear`, `attention`, `rope`, `slices`: the parts of the graph; `threads`: the thread pool.
//! - `llama`: the runtime over llama.cpp (cargo feature `llama`).

mod attention;
mod candle;
mod linear;
#[cfg(feature = "llama")]
mod llama;
mod matrix;
mod rope;
mod shape;
mod slices;
mod threads;

pub use candle::{CandleModel, Options};
#[cfg(feature = "llama")]
pub use llama::LlamaModel;

use crate::Error;
use crate::gguf::Gguf;
use crate::interrupt::Interrupt;

/// A loaded model with a key-value cache.
pub trait Runtime: Send {
    /// Evaluates `tokens` after those in the cache and returns the logits of the token after the last one.
    ///
    /// After an error the cache is unchanged.
    fn eval(&mut self, tokens: &[u32]) -> Result<&[f32], Error>;

    /// Sets the interrupt that ends later evaluations with [`Error::Cancelled`] or [`Error::Late`].
    fn set_interrupt(&mut self, interrupt: &Interrupt);

    /// Removes all but the first `length` tokens from the cache.
    fn rewind(&mut self, length: usize);

    /// Returns the number of tokens in the cache.
    fn length(&self) -> usize;

    /// Returns the context length: the most tokens the cache can hold.
    fn context(&self) -> usize;
}

/// Loads a model with llama.cpp if the feature `llama` is enabled, else with the runtime in Rust.
pub fn load(gguf: &mut Gguf, options: Options) -> Result<Box<dyn Runtime>, Error> {
    #[cfg(feature = "llama")]
    return Ok(Box::new(LlamaModel::load(gguf.path(), options)?));
    #[cfg(not(feature = "llama"))]
    Ok(Box::new(CandleModel::from_gguf(gguf, options)?))
}

//! What the decode loop needs of a model: tokens in, logits out.

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

/// A loaded model with the tokens it remembers.
pub trait Runtime: Send {
    /// Reads `tokens` after those it remembers; the logits of what may follow the last one.
    ///
    /// On an error it remembers what it did before.
    fn eval(&mut self, tokens: &[u32]) -> Result<&[f32], Error>;

    /// Forgets all but the first `length` tokens.
    fn rewind(&mut self, length: usize);

    /// How many tokens it remembers.
    fn length(&self) -> usize;

    /// How many it can.
    fn context(&self) -> usize;
}

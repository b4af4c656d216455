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
use crate::gguf::Gguf;
use crate::interrupt::Interrupt;

/// A loaded model with the tokens it remembers.
pub trait Runtime: Send {
    /// Reads `tokens` after those it remembers; the logits of what may follow the last one.
    ///
    /// On an error it remembers what it did before.
    fn eval(&mut self, tokens: &[u32]) -> Result<&[f32], Error>;

    /// From now on, readings end when this says so: with [`Error::Cancelled`], or with [`Error::Late`].
    fn heed(&mut self, interrupt: &Interrupt);

    /// Forgets all but the first `length` tokens.
    fn rewind(&mut self, length: usize);

    /// How many tokens it remembers.
    fn length(&self) -> usize;

    /// How many it can.
    fn context(&self) -> usize;
}

/// Loads the model of a file with the best runtime of this build.
pub fn load(gguf: &mut Gguf, options: Options) -> Result<Box<dyn Runtime>, Error> {
    #[cfg(feature = "llama")]
    return Ok(Box::new(LlamaModel::load(gguf.path(), options)?));
    #[cfg(not(feature = "llama"))]
    Ok(Box::new(CandleModel::from_gguf(gguf, options)?))
}

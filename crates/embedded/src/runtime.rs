//! What the decode loop needs of a model: tokens in, logits out.

/// A loaded model with the tokens it remembers.
pub trait Runtime: Send {
    /// Reads `tokens` after those it remembers; the logits of what may follow the last one.
    fn eval(&mut self, tokens: &[u32]) -> Result<&[f32], String>;

    /// Forgets all but the first `length` tokens.
    fn rewind(&mut self, length: usize);

    /// How many tokens it remembers.
    fn length(&self) -> usize;

    /// How many it can.
    fn context(&self) -> usize;
}

//! Prompt caching: evaluates only the part of a prompt that differs from the previous prompt and answer.

use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::runtime::Runtime;

/// A runtime and the tokens in its key-value cache.
pub(crate) struct PrefixCache {
    runtime: Box<dyn Runtime>,
    evaluated: Vec<u32>,
}

impl PrefixCache {
    pub(crate) fn new(runtime: Box<dyn Runtime>) -> PrefixCache {
        PrefixCache { runtime, evaluated: Vec::new() }
    }

    /// Returns the context length in tokens.
    pub(crate) fn context(&self) -> usize {
        self.runtime.context()
    }

    /// Sets the interrupt of the following evaluations.
    pub(crate) fn set_interrupt(&mut self, interrupt: &Interrupt) {
        self.runtime.set_interrupt(interrupt);
    }

    /// Empties the cache.
    pub(crate) fn clear(&mut self) {
        self.runtime.rewind(0);
        self.evaluated.clear();
    }

    /// Keeps the common prefix of `prompt` and the cache, and returns the rest of the prompt.
    ///
    /// The rest has at least one token, because only an evaluation returns logits.
    pub(crate) fn reuse_prefix<'p>(&mut self, prompt: &'p [u32]) -> &'p [u32] {
        let common = self.evaluated.iter().zip(prompt).take_while(|(cached, new)| cached == new).count();
        let kept = common.min(prompt.len().saturating_sub(1));
        self.runtime.rewind(kept);
        self.evaluated.truncate(kept);
        &prompt[kept..]
    }

    /// Evaluates tokens and returns the logits of the next token.
    pub(crate) fn eval(&mut self, tokens: &[u32]) -> Result<&[f32], Error> {
        // A failed evaluation may have rewound the runtime.
        self.evaluated.truncate(self.runtime.length());
        let logits = self.runtime.eval(tokens)?;
        // Only after a success: a failed evaluation leaves no tokens behind.
        self.evaluated.extend(tokens);
        Ok(logits)
    }
}

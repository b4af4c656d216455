//! A runtime together with the tokens it has read, so that a prompt that begins like the one before is
//! only read from where it differs.

use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::runtime::Runtime;

/// A runtime and what it has read.
pub(crate) struct Memory {
    runtime: Box<dyn Runtime>,
    read: Vec<u32>,
}

impl Memory {
    pub(crate) fn new(runtime: Box<dyn Runtime>) -> Memory {
        Memory { runtime, read: Vec::new() }
    }

    /// How many tokens fit.
    pub(crate) fn context(&self) -> usize {
        self.runtime.context()
    }

    /// Who may interrupt what follows.
    pub(crate) fn heed(&mut self, interrupt: &Interrupt) {
        self.runtime.heed(interrupt);
    }

    /// Begins anew.
    pub(crate) fn forget(&mut self) {
        self.runtime.rewind(0);
        self.read.clear();
    }

    /// Goes back to where `prompt` differs from what was read before. What is left is to be read; that is
    /// one token at least, because only reading gives logits.
    pub(crate) fn recall<'p>(&mut self, prompt: &'p [u32]) -> &'p [u32] {
        let common = self.read.iter().zip(prompt).take_while(|(read, wanted)| read == wanted).count();
        let kept = common.min(prompt.len().saturating_sub(1));
        self.runtime.rewind(kept);
        self.read.truncate(kept);
        &prompt[kept..]
    }

    /// Reads tokens; the logits of what may follow them.
    pub(crate) fn eval(&mut self, tokens: &[u32]) -> Result<&[f32], Error> {
        // Forgotten first and added after, so that a failure leaves no token that was not read.
        self.read.truncate(self.runtime.length());
        let logits = self.runtime.eval(tokens)?;
        self.read.extend(tokens);
        Ok(logits)
    }
}

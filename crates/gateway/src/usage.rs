//! Counts the calls and tokens of a request while it runs, so that a cancelled request is billed too.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use slipform_types::{Tokens, Usage};

/// The most tokens that one call counts as. Servers that report more are wrong.
const REPORTED_MAX: u64 = 100_000_000;

/// The calls and tokens of all choices of a request.
#[derive(Debug, Default)]
pub(crate) struct UsageMeter {
    calls: AtomicU32,
    input: AtomicU64,
    output: AtomicU64,
}

impl UsageMeter {
    /// Adds the start of a call.
    pub(crate) fn add_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the tokens of a reply.
    pub(crate) fn add_reply(&self, usage: &Usage) {
        self.add_input(usage.input);
        self.add_output(usage.output);
    }

    /// Adds tokens of a request that was not answered.
    pub(crate) fn add_input(&self, tokens: u64) {
        self.input.fetch_add(tokens.min(REPORTED_MAX), Ordering::Relaxed);
    }

    /// Adds tokens of a reply that was cut off.
    pub(crate) fn add_output(&self, tokens: u64) {
        self.output.fetch_add(tokens.min(REPORTED_MAX), Ordering::Relaxed);
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn tokens(&self) -> Tokens {
        let (input, output) = (self.input.load(Ordering::Relaxed), self.output.load(Ordering::Relaxed));
        Tokens { input, output }
    }
}

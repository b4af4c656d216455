//! The decode loop: evaluates a prompt and selects tokens, optionally under a grammar.
//!
//! Constrained answers are never truncated. Every few tokens the loop records a checkpoint: the shortest
//! completion of the answer from that position. When the token budget or the time runs out, the loop returns
//! to the last checkpoint and appends its completion without evaluating the model.

use std::time::{Duration, Instant};

use llguidance::Matcher;
use toktrie::{SimpleVob, TokTrie};

use crate::error::Error;
use crate::grammar::close;
use crate::interrupt::Interrupt;
use crate::prefix_cache::PrefixCache;
use crate::repetition::RepetitionGuard;
use crate::sample::Sampler;

/// The tokens between two checkpoints, far from the end of the budget. Text is settled, and can be streamed, up to the last
/// checkpoint. A checkpoint takes 0.1 to 0.9 ms, a token about 20 ms.
const CHECKPOINT_INTERVAL: usize = 4;

/// The spare tokens of the budget at which the loop starts to record a checkpoint for every token.
const NEAR_END: usize = 48;

/// The limits of one answer.
#[derive(Debug, Clone)]
pub(crate) struct Limits<'a> {
    /// The most tokens to decode.
    pub(crate) tokens: usize,
    /// Cancellation and deadline.
    pub(crate) interrupt: &'a Interrupt,
}

impl Limits<'_> {
    fn check(&self) -> Result<(), Error> {
        if self.interrupt.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// An unfinished answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decoding<'a> {
    /// The number of tokens decoded so far.
    pub(crate) tokens: usize,
    /// The tokens that the answer begins with, however it ends.
    pub(crate) settled: &'a [u32],
}

/// The result of the decode loop.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) tokens: Vec<u32>,
    /// Whether the model ended the answer, or the loop closed it under its grammar.
    pub(crate) is_complete: bool,
    /// Whether the loop appended the end of the answer.
    pub(crate) forced_close: bool,
    /// Whether the loop ended a repetition.
    pub(crate) repetition_cut: bool,
    pub(crate) timing: Timing,
}

/// The time spent in each phase of an answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timing {
    /// The evaluation of the prompt, up to the first logits.
    pub prompt: Duration,
    /// The evaluation of decoded tokens.
    pub decode: Duration,
    /// The computation of token masks and of completions.
    pub masks: Duration,
    /// The evaluated tokens of the prompt, without those reused from the previous answer.
    pub prompt_tokens: usize,
    /// The evaluated tokens after the prompt.
    pub decoded_tokens: usize,
    /// The evaluations after that of the prompt. Tokens forced by the grammar share one.
    pub evaluations: usize,
}

/// Evaluates tokens and measures the time.
struct Evaluator<'r> {
    cache: &'r mut PrefixCache,
    /// Selected tokens that are not evaluated yet.
    pending: Vec<u32>,
    timing: Timing,
}

impl<'r> Evaluator<'r> {
    fn new(cache: &'r mut PrefixCache, prompt: &[u32]) -> Evaluator<'r> {
        let pending = cache.reuse_prefix(prompt).to_vec();
        let timing = Timing { prompt_tokens: pending.len(), ..Timing::default() };
        Evaluator { cache, pending, timing }
    }

    /// Returns whether the prompt is evaluated.
    fn has_prompt(&self) -> bool {
        !self.timing.prompt.is_zero()
    }

    /// Evaluates the pending tokens. Returns `None` if the deadline passes after the prompt.
    fn logits(&mut self) -> Result<Option<&[f32]>, Error> {
        let (start, has_prompt) = (Instant::now(), self.has_prompt());
        let logits = match self.cache.eval(&self.pending) {
            Err(Error::Late) if has_prompt => return Ok(None),
            other => other?,
        };
        if !has_prompt {
            self.timing.prompt = start.elapsed();
        } else {
            self.timing.decode += start.elapsed();
            self.timing.decoded_tokens += self.pending.len();
            self.timing.evaluations += 1;
        }
        self.pending.clear();
        if logits.iter().any(|logit| logit.is_nan()) {
            return Err(Error::NotNumbers);
        }
        Ok(Some(logits))
    }
}

/// Decodes free text until the model ends it or the budget is used up.
pub(crate) fn free(
    cache: &mut PrefixCache,
    prompt: &[u32],
    is_end: &dyn Fn(u32) -> bool,
    sampler: &mut Sampler,
    limits: &Limits<'_>,
    progress: &mut dyn FnMut(Decoding<'_>),
) -> Result<Decoded, Error> {
    let mut evaluator = Evaluator::new(cache, prompt);
    let mut decoded = Decoded::default();
    while decoded.tokens.len() < limits.tokens {
        limits.check()?;
        let Some(logits) = evaluator.logits()? else { return Err(Error::LateAnswer) };
        let token = sampler.choose(logits, None).ok_or(Error::NoToken)?;
        if is_end(token) {
            decoded.is_complete = true;
            break;
        }
        decoded.tokens.push(token);
        evaluator.pending.push(token);
        progress(Decoding { tokens: decoded.tokens.len(), settled: &decoded.tokens });
    }
    decoded.timing = evaluator.timing;
    Ok(decoded)
}

/// A completion of the answer from a given position.
struct Checkpoint {
    position: usize,
    closing: Vec<u32>,
    /// The time that the search for the completion took.
    cost: Duration,
}

impl Checkpoint {
    fn record(matcher: &Matcher, position: usize, timing: &mut Timing) -> Result<Checkpoint, Error> {
        let start = Instant::now();
        let closing = close(matcher).ok_or(Error::NoClosing)?;
        let cost = start.elapsed();
        timing.masks += cost;
        Ok(Checkpoint { position, closing, cost })
    }

    /// Returns the tokens until the next checkpoint, if `spare` tokens of the budget remain.
    ///
    /// Near the end, every token gets a checkpoint. Expensive checkpoints are recorded less often.
    fn interval(&self, spare: usize) -> usize {
        let milliseconds = self.cost.as_millis() as usize;
        // The first one settles the beginning of the answer, which streams as soon as it is decoded.
        if spare <= NEAR_END || self.position == 0 {
            1 + milliseconds / 8
        } else {
            CHECKPOINT_INTERVAL + milliseconds
        }
    }

    fn length(&self) -> usize {
        self.position + self.closing.len()
    }
}

/// Decodes a complete answer that the grammar of `matcher` allows.
pub(crate) fn constrained(
    cache: &mut PrefixCache,
    prompt: &[u32],
    is_end: &dyn Fn(u32) -> bool,
    matcher: Matcher,
    sampler: &mut Sampler,
    limits: &Limits<'_>,
    progress: &mut dyn FnMut(Decoding<'_>),
) -> Result<Decoded, Error> {
    let env = matcher.tok_env().map_err(Error::grammar)?;
    let mut evaluator = Evaluator::new(cache, prompt);
    let checkpoint = Checkpoint::record(&matcher, 0, &mut evaluator.timing)?;
    if checkpoint.length() > limits.tokens {
        return Err(Error::BudgetTooSmall { needed: checkpoint.length(), budget: limits.tokens });
    }
    let trie = env.tok_trie();
    let guard = RepetitionGuard::new(trie);
    let mut decoder = ConstrainedDecoder {
        matcher,
        evaluator,
        guard,
        trie,
        tokens: Vec::new(),
        checkpoint,
        repetition_cut: false,
    };
    while !decoder.matcher.is_stopped() {
        limits.check()?;
        // If the grammar fails, the answer is closed at the last checkpoint.
        let is_ended = match decoder.step(sampler, is_end) {
            Err(Error::Grammar(_) | Error::NoToken) => return Ok(decoder.close_at_checkpoint()),
            other => other?,
        };
        if is_ended {
            break;
        }
        let is_late = limits.interrupt.is_late();
        if is_late && !decoder.evaluator.has_prompt() {
            return Err(Error::Late);
        }
        if !decoder.matcher.is_stopped() && !decoder.can_continue(limits.tokens, is_late) {
            return Ok(decoder.close_at_checkpoint());
        }
        let settled = &decoder.tokens[..decoder.checkpoint.position];
        progress(Decoding { tokens: decoder.tokens.len(), settled });
    }
    if decoder.matcher.is_error() || decoder.tokens.len() > limits.tokens {
        // Forced tokens may exceed the budget at the end of the answer.
        return Ok(decoder.close_at_checkpoint());
    }
    Ok(decoder.finish(false))
}

/// The state of a constrained decode loop.
struct ConstrainedDecoder<'r, 't> {
    matcher: Matcher,
    evaluator: Evaluator<'r>,
    guard: RepetitionGuard,
    trie: &'t TokTrie,
    tokens: Vec<u32>,
    checkpoint: Checkpoint,
    repetition_cut: bool,
}

impl ConstrainedDecoder<'_, '_> {
    /// Appends the next token, or all tokens that the grammar forces. Returns true if the answer ends.
    fn step(&mut self, sampler: &mut Sampler, is_end: &dyn Fn(u32) -> bool) -> Result<bool, Error> {
        let start = Instant::now();
        let forced = self.matcher.compute_ff_tokens();
        if !forced.is_empty() {
            self.evaluator.timing.masks += start.elapsed();
            if self.guard.repeats_name(&self.trie.decode(&forced)) {
                return Err(Error::NoToken);
            }
            return self.advance(&forced).map(|()| false);
        }
        let mut mask = self.matcher.compute_mask().map_err(Error::grammar)?;
        if let Some(ending) = self.guard.ending_mask(&self.tokens, &mask) {
            mask = ending;
            self.repetition_cut = true;
        }
        self.evaluator.timing.masks += start.elapsed();
        let Some(logits) = self.evaluator.logits()? else { return Ok(false) };
        let token = choose(sampler, logits, mask, &self.guard, self.trie).ok_or(Error::NoToken)?;
        if is_end(token) && self.matcher.is_accepting().map_err(Error::grammar)? {
            return Ok(true);
        }
        self.advance(&[token]).map(|()| false)
    }

    fn advance(&mut self, next: &[u32]) -> Result<(), Error> {
        self.matcher.consume_tokens(next).map_err(Error::grammar)?;
        self.tokens.extend(next);
        self.evaluator.pending.extend(next);
        next.iter().for_each(|token| self.guard.record(self.trie.token(*token)));
        Ok(())
    }

    /// Records a checkpoint if one is due. Returns false if the answer must be closed now.
    fn can_continue(&mut self, budget: usize, is_late: bool) -> bool {
        let length = self.tokens.len();
        let spare = budget.saturating_sub(length + self.checkpoint.closing.len());
        let next = self.checkpoint.position + self.checkpoint.interval(spare);
        let is_due = is_late || length >= budget || length >= next;
        if !is_due {
            return true;
        }
        let here = Checkpoint::record(&self.matcher, length, &mut self.evaluator.timing);
        let Some(here) = here.ok().filter(|here| here.length() <= budget) else { return false };
        // A completion with a duplicate member name is unusable, so the previous checkpoint stays.
        if !self.guard.repeats_name(&self.trie.decode(&here.closing)) {
            self.checkpoint = here;
        }
        !is_late
    }

    /// Returns to the last checkpoint and appends its completion.
    fn close_at_checkpoint(mut self) -> Decoded {
        self.tokens.truncate(self.checkpoint.position);
        self.tokens.append(&mut self.checkpoint.closing);
        self.finish(true)
    }

    fn finish(self, forced_close: bool) -> Decoded {
        let ConstrainedDecoder { tokens, repetition_cut, evaluator, .. } = self;
        Decoded { tokens, is_complete: true, forced_close, repetition_cut, timing: evaluator.timing }
    }
}

/// Selects the next token under a grammar, without completing a duplicate member name. Returns `None` if no
/// token remains.
fn choose(
    sampler: &mut Sampler,
    logits: &[f32],
    mut mask: SimpleVob,
    guard: &RepetitionGuard,
    trie: &TokTrie,
) -> Option<u32> {
    loop {
        let token = sampler.choose(logits, Some(&mask))?;
        if !guard.repeats_name(trie.token(token)) {
            return Some(token);
        }
        mask.disallow_token(token);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use slipform_schema::Schema;
    use toktrie::{ApproximateTokEnv, TokEnv};

    use super::*;
    use crate::grammar::{Bounds, Compiler};
    use crate::runtime::Runtime;

    /// A fake model whose logits are pseudo-random and depend on all evaluated tokens.
    struct Noise {
        read: Vec<u32>,
        seed: u64,
        logits: Vec<f32>,
        /// The number of evaluated tokens at which the deadline passes.
        late_after: usize,
        interrupt: Interrupt,
    }

    impl Runtime for Noise {
        fn eval(&mut self, tokens: &[u32]) -> Result<&[f32], Error> {
            self.interrupt.check()?;
            self.read.extend(tokens);
            if self.read.len() >= self.late_after {
                self.interrupt.set_deadline(Some(Instant::now()));
            }
            let mut state = self.read.iter().fold(self.seed, |state, token| {
                (state ^ u64::from(*token)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
            });
            for logit in &mut self.logits {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *logit = (state >> 40) as f32 / (1 << 20) as f32;
            }
            Ok(&self.logits)
        }

        fn set_interrupt(&mut self, interrupt: &Interrupt) {
            self.interrupt = interrupt.clone();
        }

        fn rewind(&mut self, length: usize) {
            self.read.truncate(length);
        }

        fn length(&self) -> usize {
            self.read.len()
        }

        fn context(&self) -> usize {
            10_000
        }
    }

    fn noise(seed: u64) -> Noise {
        let interrupt = Interrupt::default();
        Noise { read: Vec::new(), seed, logits: vec![0.0; 257], late_after: usize::MAX, interrupt }
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2},
                "kind": {"enum": ["short", "a rather long word"]},
                "lines": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
                        "required": ["id", "note"],
                    },
                    "minItems": 1,
                },
            },
            "required": ["name", "kind", "lines"],
        })
    }

    fn decode(model: Noise, tokens: usize, temperature: f32) -> Result<(Decoded, Vec<u8>), Error> {
        decode_for(&schema(), model, tokens, temperature)
    }

    fn decode_for(
        schema: &Value,
        model: Noise,
        tokens: usize,
        temperature: f32,
    ) -> Result<(Decoded, Vec<u8>), Error> {
        let env: TokEnv = Arc::new(ApproximateTokEnv::single_byte());
        let eos = env.tok_trie().eos_token();
        let grammar = Compiler::new(&env).unwrap().compile(schema, &Bounds::default()).unwrap();
        let interrupt = model.interrupt.clone();
        let limits = Limits { tokens, interrupt: &interrupt };
        let mut cache = PrefixCache::new(Box::new(model));
        cache.set_interrupt(&interrupt);
        let mut sampler = Sampler::new(temperature, 1);
        let is_end = |token: u32| token == eos;
        let matcher = grammar.matcher();
        let mut settled = Vec::new();
        let mut progress = |decoding: Decoding<'_>| {
            assert!(decoding.settled.starts_with(&settled));
            settled = decoding.settled.to_vec();
        };
        let decoded =
            constrained(&mut cache, &[1, 2, 3], &is_end, matcher, &mut sampler, &limits, &mut progress)?;
        // However the answer ends, it begins with all tokens that were reported as settled.
        assert!(decoded.tokens.starts_with(&settled));
        let bytes = env.tok_trie().decode(&decoded.tokens);
        Ok((decoded, bytes))
    }

    #[test]
    fn constrained_answer_is_complete_valid_and_within_budget_for_any_logits() {
        let schema = Schema::compile(&schema()).unwrap();
        let (mut closed, mut ended) = (0, 0);
        for seed in 0..40 {
            for (tokens, temperature) in [(90, 0.0), (120, 1.5), (300, 1.5), (9000, 1.0)] {
                let (decoded, bytes) = decode(noise(seed), tokens, temperature).unwrap();
                assert!(decoded.is_complete && decoded.tokens.len() <= tokens);
                let value: Value = serde_json::from_slice(&bytes).unwrap();
                assert!(schema.is_valid(&value), "{value}");
                closed += usize::from(decoded.forced_close);
                ended += usize::from(!decoded.forced_close);
            }
        }
        assert!(closed > 20 && ended > 20, "{closed} closed by the loop, {ended} ended by the model");
    }

    #[test]
    fn member_names_are_not_repeated() {
        let map = json!({
            "type": "object",
            "propertyNames": {"enum": ["a", "b"]},
            "additionalProperties": {"type": "integer"},
        });
        for seed in 0..20 {
            let (_, bytes) = decode_for(&map, noise(seed), 400, 1.0).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.matches("\"a\"").count() < 2 && text.matches("\"b\"").count() < 2, "{text}");
        }
    }

    #[test]
    fn answer_is_closed_when_the_deadline_passes() {
        let model = Noise { late_after: 40, ..noise(7) };
        let (decoded, bytes) = decode(model, 5000, 1.0).unwrap();
        assert!(decoded.forced_close && decoded.tokens.len() < 120, "{} tokens", decoded.tokens.len());
        assert!(Schema::compile(&schema()).unwrap().is_valid(&serde_json::from_slice(&bytes).unwrap()));
    }

    #[test]
    fn decoding_fails_if_late_for_the_prompt_over_budget_or_cancelled() {
        let late = noise(7);
        late.interrupt.set_deadline(Some(Instant::now()));
        assert!(matches!(decode(late, 5000, 1.0), Err(Error::Late)));
        assert!(matches!(decode(noise(7), 20, 1.0), Err(Error::BudgetTooSmall { budget: 20, .. })));
        let cancelled = noise(7);
        cancelled.interrupt.cancel();
        assert!(matches!(decode(cancelled, 5000, 1.0), Err(Error::Cancelled)));
    }
}

//! The decode loop: a prompt in, tokens out, under a grammar where there is one.
//!
//! Under a grammar the answer is never cut off. Every few tokens the loop notes how the answer could be
//! closed from there; when the budget or the time runs out, it goes back to the last note whose closing
//! still fits and appends that closing without asking the model.

use std::time::{Duration, Instant};

use llguidance::Matcher;
use toktrie::{SimpleVob, TokTrie};

use crate::error::Error;
use crate::grammar::close;
use crate::interrupt::Interrupt;
use crate::memory::Memory;
use crate::repetition::Watcher;
use crate::sample::Sampler;

/// Tokens between two notes of how the answer could be closed, far from the end of the budget.
const NOTE_EVERY: usize = 16;

/// Near the end of the budget, where every token is noted: this many tokens beyond the closing.
const NEAR: usize = 48;

/// What bounds one answer.
#[derive(Debug, Clone)]
pub(crate) struct Limits<'a> {
    /// The most tokens to write.
    pub(crate) tokens: usize,
    /// Whether the answer is still wanted, and until when.
    pub(crate) interrupt: &'a Interrupt,
}

impl Limits<'_> {
    fn check(&self) -> Result<(), Error> {
        if self.interrupt.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// What the model wrote.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) tokens: Vec<u32>,
    /// It ended by itself, or was closed under its grammar.
    pub(crate) complete: bool,
    /// The end was written by the loop and not by the model.
    pub(crate) forced_close: bool,
    /// Something that repeated was ended.
    pub(crate) repetition_cut: bool,
    pub(crate) timing: Timing,
}

/// Where the time of an answer went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timing {
    /// From the start to the first logits: reading the prompt.
    pub prompt: Duration,
    /// Evaluating the model after that.
    pub decode: Duration,
    /// Computing which tokens the grammar allows, and how the answer could be closed.
    pub masks: Duration,
    /// Tokens of the prompt that were read, and not remembered from the answer before.
    pub prompt_tokens: usize,
    /// Tokens that were evaluated after the prompt.
    pub decoded_tokens: usize,
    /// Evaluations after the first; forced tokens share one.
    pub evaluations: usize,
}

/// Evaluates and keeps account of it.
struct Reader<'r> {
    memory: &'r mut Memory,
    /// Tokens that were decided on and not read yet.
    unread: Vec<u32>,
    timing: Timing,
}

impl<'r> Reader<'r> {
    fn new(memory: &'r mut Memory, prompt: &[u32]) -> Reader<'r> {
        let unread = memory.recall(prompt).to_vec();
        let timing = Timing { prompt_tokens: unread.len(), ..Timing::default() };
        Reader { memory, unread, timing }
    }

    /// Whether the prompt was read.
    fn has_read(&self) -> bool {
        !self.timing.prompt.is_zero()
    }

    /// What may follow what was decided on; nothing where the time is over in the middle of an answer.
    fn logits(&mut self) -> Result<Option<&[f32]>, Error> {
        let (start, has_read) = (Instant::now(), self.has_read());
        let logits = match self.memory.eval(&self.unread) {
            Err(Error::Late) if has_read => return Ok(None),
            other => other?,
        };
        if !has_read {
            self.timing.prompt = start.elapsed();
        } else {
            self.timing.decode += start.elapsed();
            self.timing.decoded_tokens += self.unread.len();
            self.timing.evaluations += 1;
        }
        self.unread.clear();
        if logits.iter().any(|logit| logit.is_nan()) {
            return Err(Error::NotNumbers);
        }
        Ok(Some(logits))
    }
}

/// Writes free text until the model ends it.
pub(crate) fn free(
    memory: &mut Memory,
    prompt: &[u32],
    is_end: &dyn Fn(u32) -> bool,
    sampler: &mut Sampler,
    limits: &Limits<'_>,
    progress: &mut dyn FnMut(usize),
) -> Result<Written, Error> {
    let mut reader = Reader::new(memory, prompt);
    let mut written = Written::default();
    while written.tokens.len() < limits.tokens {
        limits.check()?;
        let Some(logits) = reader.logits()? else { return Err(Error::LateAnswer) };
        let token = sampler.choose(logits, None).ok_or(Error::NoToken)?;
        if is_end(token) {
            written.complete = true;
            break;
        }
        written.tokens.push(token);
        reader.unread.push(token);
        progress(written.tokens.len());
    }
    written.timing = reader.timing;
    Ok(written)
}

/// How the answer could be closed from some place.
struct Note {
    at: usize,
    closing: Vec<u32>,
    /// How long it took to find out.
    took: Duration,
}

impl Note {
    fn take(matcher: &Matcher, at: usize, timing: &mut Timing) -> Result<Note, Error> {
        let start = Instant::now();
        let closing = close(matcher).ok_or(Error::NoClosing)?;
        let took = start.elapsed();
        timing.masks += took;
        Ok(Note { at, closing, took })
    }

    /// After how many tokens the next note is due when `spare` tokens of the budget are not needed yet. Near
    /// the end that is every token; notes that take long are taken less often.
    fn distance(&self, spare: usize) -> usize {
        let milliseconds = self.took.as_millis() as usize;
        if spare <= NEAR { 1 + milliseconds / 8 } else { NOTE_EVERY + milliseconds }
    }

    fn length(&self) -> usize {
        self.at + self.closing.len()
    }
}

/// Writes what the grammar of `matcher` allows, whole.
pub(crate) fn constrained(
    memory: &mut Memory,
    prompt: &[u32],
    is_end: &dyn Fn(u32) -> bool,
    matcher: Matcher,
    sampler: &mut Sampler,
    limits: &Limits<'_>,
    progress: &mut dyn FnMut(usize),
) -> Result<Written, Error> {
    let env = matcher.tok_env().map_err(Error::grammar)?;
    let mut reader = Reader::new(memory, prompt);
    let note = Note::take(&matcher, 0, &mut reader.timing)?;
    if note.length() > limits.tokens {
        return Err(Error::BudgetTooSmall { needed: note.length(), budget: limits.tokens });
    }
    let trie = env.tok_trie();
    let watcher = Watcher::new(trie);
    let mut writer = ConstrainedDecoder {
        matcher,
        reader,
        watcher,
        trie,
        tokens: Vec::new(),
        note,
        repetition_cut: false,
    };
    while !writer.matcher.is_stopped() {
        limits.check()?;
        // A grammar that fails in the middle still has the ending that was noted.
        let ended = match writer.go_on(sampler, is_end) {
            Err(Error::Grammar(_) | Error::NoToken) => return Ok(writer.cut()),
            other => other?,
        };
        progress(writer.tokens.len());
        if ended {
            break;
        }
        let late = limits.interrupt.is_late();
        if late && !writer.reader.has_read() {
            return Err(Error::Late);
        }
        if !writer.matcher.is_stopped() && !writer.note_within(limits.tokens, late) {
            return Ok(writer.cut());
        }
    }
    if writer.matcher.is_error() || writer.tokens.len() > limits.tokens {
        // Forced tokens may go past the budget and end the answer there.
        return Ok(writer.cut());
    }
    Ok(writer.written(false))
}

/// An answer that is being written under a grammar.
struct ConstrainedDecoder<'r, 't> {
    matcher: Matcher,
    reader: Reader<'r>,
    watcher: Watcher,
    trie: &'t TokTrie,
    tokens: Vec<u32>,
    note: Note,
    repetition_cut: bool,
}

impl ConstrainedDecoder<'_, '_> {
    /// Writes the next token, or all that the grammar leaves no choice about; true where the answer ends.
    fn go_on(&mut self, sampler: &mut Sampler, is_end: &dyn Fn(u32) -> bool) -> Result<bool, Error> {
        let start = Instant::now();
        let forced = self.matcher.compute_ff_tokens();
        if !forced.is_empty() {
            self.reader.timing.masks += start.elapsed();
            if self.watcher.repeats_name(&self.trie.decode(&forced)) {
                return Err(Error::NoToken);
            }
            return self.advance(&forced).map(|()| false);
        }
        let mut mask = self.matcher.compute_mask().map_err(Error::grammar)?;
        if let Some(way_out) = self.watcher.way_out(&self.tokens, &mask) {
            mask = way_out;
            self.repetition_cut = true;
        }
        self.reader.timing.masks += start.elapsed();
        let Some(logits) = self.reader.logits()? else { return Ok(false) };
        let token = choose(sampler, logits, mask, &self.watcher, self.trie).ok_or(Error::NoToken)?;
        if is_end(token) && self.matcher.is_accepting().map_err(Error::grammar)? {
            return Ok(true);
        }
        self.advance(&[token]).map(|()| false)
    }

    fn advance(&mut self, next: &[u32]) -> Result<(), Error> {
        self.matcher.consume_tokens(next).map_err(Error::grammar)?;
        self.tokens.extend(next);
        self.reader.unread.extend(next);
        next.iter().for_each(|token| self.watcher.see(self.trie.token(*token)));
        Ok(())
    }

    /// Notes how the answer could be closed from here, where that is due. False where it has to be closed now.
    fn note_within(&mut self, budget: usize, late: bool) -> bool {
        let written = self.tokens.len();
        let spare = budget.saturating_sub(written + self.note.closing.len());
        let is_due = late || written >= budget || written >= self.note.at + self.note.distance(spare);
        if !is_due {
            return true;
        }
        let here = Note::take(&self.matcher, written, &mut self.reader.timing);
        let Some(here) = here.ok().filter(|here| here.length() <= budget) else { return false };
        // In the middle of a name that is taken there is no good ending; the note before it stays.
        if !self.watcher.repeats_name(&self.trie.decode(&here.closing)) {
            self.note = here;
        }
        !late
    }

    /// Goes back to the last note and closes there.
    fn cut(mut self) -> Written {
        self.tokens.truncate(self.note.at);
        self.tokens.append(&mut self.note.closing);
        self.written(true)
    }

    fn written(self, forced_close: bool) -> Written {
        let ConstrainedDecoder { tokens, repetition_cut, reader, .. } = self;
        Written { tokens, complete: true, forced_close, repetition_cut, timing: reader.timing }
    }
}

/// The next token under a grammar that does not give a member the name of another; nothing where there is none.
fn choose(
    sampler: &mut Sampler,
    logits: &[f32],
    mut mask: SimpleVob,
    watcher: &Watcher,
    trie: &TokTrie,
) -> Option<u32> {
    loop {
        let token = sampler.choose(logits, Some(&mask))?;
        if !watcher.repeats_name(trie.token(token)) {
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

    /// A model that means nothing: its logits are noise, which depends on all that it has read.
    struct Noise {
        read: Vec<u32>,
        seed: u64,
        logits: Vec<f32>,
        /// Interrupted when it has read so many tokens.
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

        fn heed(&mut self, interrupt: &Interrupt) {
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

    fn written(model: Noise, tokens: usize, temperature: f32) -> Result<(Written, Vec<u8>), Error> {
        written_for(&schema(), model, tokens, temperature)
    }

    fn written_for(
        schema: &Value,
        model: Noise,
        tokens: usize,
        temperature: f32,
    ) -> Result<(Written, Vec<u8>), Error> {
        let env: TokEnv = Arc::new(ApproximateTokEnv::single_byte());
        let eos = env.tok_trie().eos_token();
        let grammar = Compiler::new(&env).unwrap().compile(schema, &Bounds::default()).unwrap();
        let interrupt = model.interrupt.clone();
        let limits = Limits { tokens, interrupt: &interrupt };
        let mut memory = Memory::new(Box::new(model));
        memory.heed(&interrupt);
        let mut sampler = Sampler::new(temperature, 1);
        let is_end = |token: u32| token == eos;
        let matcher = grammar.matcher();
        let written =
            constrained(&mut memory, &[1, 2, 3], &is_end, matcher, &mut sampler, &limits, &mut |_| {})?;
        let bytes = env.tok_trie().decode(&written.tokens);
        Ok((written, bytes))
    }

    #[test]
    fn whatever_the_model_says_the_answer_is_whole_valid_and_within_its_budget() {
        let schema = Schema::compile(&schema()).unwrap();
        let (mut closed, mut ended) = (0, 0);
        for seed in 0..40 {
            for (tokens, temperature) in [(90, 0.0), (120, 1.5), (300, 1.5), (9000, 1.0)] {
                let (written, bytes) = written(noise(seed), tokens, temperature).unwrap();
                assert!(written.complete && written.tokens.len() <= tokens);
                let value: Value = serde_json::from_slice(&bytes).unwrap();
                assert!(schema.is_valid(&value), "{value}");
                closed += usize::from(written.forced_close);
                ended += usize::from(!written.forced_close);
            }
        }
        assert!(closed > 20 && ended > 20, "{closed} closed and {ended} ended by themselves");
    }

    #[test]
    fn names_never_repeat() {
        let map = json!({
            "type": "object",
            "propertyNames": {"enum": ["a", "b"]},
            "additionalProperties": {"type": "integer"},
        });
        for seed in 0..20 {
            let (_, bytes) = written_for(&map, noise(seed), 400, 1.0).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.matches("\"a\"").count() < 2 && text.matches("\"b\"").count() < 2, "{text}");
        }
    }

    #[test]
    fn when_the_time_is_over_the_answer_is_closed() {
        let model = Noise { late_after: 40, ..noise(7) };
        let (written, bytes) = written(model, 5000, 1.0).unwrap();
        assert!(written.forced_close && written.tokens.len() < 120, "{} tokens", written.tokens.len());
        assert!(Schema::compile(&schema()).unwrap().is_valid(&serde_json::from_slice(&bytes).unwrap()));
    }

    #[test]
    fn without_time_for_the_prompt_or_room_for_the_shortest_answer_there_is_an_error() {
        let late = noise(7);
        late.interrupt.set_deadline(Some(Instant::now()));
        assert!(matches!(written(late, 5000, 1.0), Err(Error::Late)));
        assert!(matches!(written(noise(7), 20, 1.0), Err(Error::BudgetTooSmall { budget: 20, .. })));
        let cancelled = noise(7);
        cancelled.interrupt.cancel();
        assert!(matches!(written(cancelled, 5000, 1.0), Err(Error::Cancelled)));
    }
}

//! A loaded model that answers requests, one after the other.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

use formwork_types::{Reply, Request, Stop, Usage};
use serde_json::Value;
use toktrie::TokEnv;

use crate::ask::Ask;
use crate::decode::{self, Limits, Timing, Written};
use crate::error::Error;
use crate::grammar::{Bounds, Compiled, compile};
use crate::interrupt::Interrupt;
use crate::memory::Memory;
use crate::sample::Sampler;
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;

/// The most tokens of an answer where nobody says how many.
const TOKENS_DEFAULT: u32 = 1_024;

/// The fewest tokens that have to be left for the answer when the prompt has been read.
const ROOM_MIN: usize = 64;

/// Compiled grammars that are kept. Agents come back with the same few contracts.
const GRAMMARS_KEPT: usize = 8;

/// How a model answers where the request does not say.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Sampling temperature; 0, the likeliest token, when left out.
    pub temperature: Option<f64>,
    /// Sampling seed; by chance when left out.
    pub seed: Option<u64>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u32>,
}

/// A model in memory.
pub struct Model {
    name: String,
    memory: Memory,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    vocabulary: TokEnv,
    grammars: Vec<(String, Compiled)>,
    settings: Settings,
}

/// An answer, and where the time went.
#[derive(Debug)]
pub struct Answer {
    /// What the model answered.
    pub reply: Reply,
    /// Where the time went.
    pub timing: Timing,
}

impl Model {
    /// Answers a request. `progress` is told the number of tokens written so far.
    pub fn answer(
        &mut self,
        request: &Request,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Answer, Error> {
        let ask = Ask::of(request)?;
        let prompt = self.template.render(&self.tokenizer, &ask.request(request))?;
        let budget = request.max_tokens.or(self.settings.max_tokens).unwrap_or(TOKENS_DEFAULT) as usize;
        let room = self.memory.context().saturating_sub(prompt.len());
        if room < ROOM_MIN.min(budget) {
            let context = self.memory.context();
            return Err(Error::PromptTooLong { tokens: prompt.len(), context });
        }
        let limits = Limits { tokens: budget.min(room), interrupt };
        let temperature = request.temperature.or(self.settings.temperature).unwrap_or(0.0);
        let seed = request.seed.or(self.settings.seed).unwrap_or_else(chance);
        let mut sampler = Sampler::new(temperature as f32, seed);
        let grammar = match ask.schema() {
            None => None,
            Some(schema) => Some(grammar(&mut self.grammars, &schema, limits.tokens, &self.vocabulary)?),
        };
        let tokenizer = &self.tokenizer;
        let is_end = |token: u32| tokenizer.eos_tokens().contains(&token);
        let memory = &mut self.memory;
        let written = match grammar {
            None => decode::free(memory, &prompt, &is_end, &mut sampler, &limits, progress)?,
            Some(grammar) => {
                let matcher = grammar.matcher()?;
                decode::constrained(memory, &prompt, &is_end, matcher, &mut sampler, &limits, progress)?
            }
        };
        let text = text(tokenizer, &written)?;
        let mut reply = ask.reply(text)?;
        if !written.complete {
            reply.stop = Stop::Length;
        }
        reply.usage =
            Usage { input: prompt.len() as u64, output: written.tokens.len() as u64, estimated: false };
        reply.model = self.name.clone();
        if let Some(grammar) = grammar {
            reply.unenforced = grammar.unenforced().to_vec();
        }
        if written.forced_close {
            reply.flags.push("forced_close".to_owned());
        }
        Ok(Answer { reply, timing: written.timing })
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn chance() -> u64 {
    RandomState::new().hash_one(0)
}

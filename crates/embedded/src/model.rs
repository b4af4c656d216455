//! A loaded model that answers requests, one after the other.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use slipform_types::{Reply, Request, StopReason, Usage};

use crate::ask::{Ask, Branch};
use crate::decode::{self, Limits, Timing, Written};
use crate::error::Error;
use crate::gguf::Gguf;
use crate::grammar::{self, Bounds, Choice, Compiler, Grammar};
use crate::interrupt::Interrupt;
use crate::memory::Memory;
use crate::runtime;
use crate::sample::Sampler;
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;

/// The most tokens of an answer where nobody says how many.
const TOKENS_DEFAULT: u32 = 1_024;

/// The fewest tokens that have to be left for the answer when the prompt has been read.
const ROOM_MIN: usize = 64;

/// Compiled grammars that are kept. Agents come back with the same few contracts.
const GRAMMARS_KEPT: usize = 8;

/// Characters that a token of an answer surely stands for.
const CHARACTERS_A_TOKEN: usize = 3;

/// The most characters of a string and items of an array where the schema does not say, from generous to
/// tight.
const BOUNDS: [(u64, usize); 6] = [(400, 20), (300, 10), (240, 6), (160, 5), (120, 4), (80, 3)];

/// How long finding bounds may take before the tightest are taken.
const STEPS_TIME_MAX: Duration = Duration::from_millis(100);

/// How a model answers where the request does not say.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Sampling temperature; 0, the likeliest token, when left out.
    pub temperature: Option<f64>,
    /// Sampling seed; by chance when left out.
    pub seed: Option<u64>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u32>,
    /// Threads that share the arithmetic; one less than the processor has when left out.
    pub threads: Option<usize>,
}

/// A model in memory.
pub struct Model {
    name: String,
    memory: Memory,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    grammars: Grammars,
    settings: Settings,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Model").field("name", &self.name).finish_non_exhaustive()
    }
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
    /// Loads the weights at `path`.
    pub fn load(path: &Path, settings: &Settings) -> Result<Model, Error> {
        let mut gguf = Gguf::open(path)?;
        let tokenizer = Tokenizer::from_gguf(&gguf)?;
        let template = ChatTemplate::from_gguf(&gguf, &tokenizer)?;
        let compiler = Compiler::new(&tokenizer.token_env()).map_err(Error::grammar)?;
        let mut options = runtime::Options::default();
        options.threads = settings.threads.unwrap_or(options.threads);
        let runtime = runtime::load(&mut gguf, options)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Model {
            name,
            memory: Memory::new(runtime),
            tokenizer,
            template,
            grammars: Grammars { compiler, kept: Vec::new() },
            settings: settings.clone(),
        })
    }

    /// The model's name: that of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

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
        let context = self.memory.context();
        let room = context.saturating_sub(prompt.len());
        if room < ROOM_MIN.min(budget) {
            return Err(Error::PromptTooLong { tokens: prompt.len(), context });
        }
        let limits = Limits { tokens: budget.min(room), interrupt };
        let temperature = request.temperature.or(self.settings.temperature).unwrap_or(0.0);
        let seed = request.seed.or(self.settings.seed);
        if seed.is_some() {
            // What was read in other company differs in its last digits, and a seed promises the same answer.
            self.memory.forget();
        }
        let mut sampler = Sampler::new(temperature as f32, seed.unwrap_or_else(chance));
        let tokenizer = &self.tokenizer;
        let is_end = |token: u32| tokenizer.eos_tokens().contains(&token);
        let grammar = self.grammars.find(&ask.branches(), limits.tokens)?;
        let memory = &mut self.memory;
        memory.heed(interrupt);
        let written = match grammar {
            None => decode::free(memory, &prompt, &is_end, &mut sampler, &limits, progress)?,
            Some(grammar) => {
                let matcher = grammar.matcher();
                let written =
                    decode::constrained(memory, &prompt, &is_end, matcher, &mut sampler, &limits, progress);
                match written {
                    // With more tokens there is an answer, and whoever set the budget may have them.
                    Err(Error::BudgetTooSmall { needed, .. }) if needed <= room => Written::default(),
                    other => other?,
                }
            }
        };
        progress(written.tokens.len());
        let text = text(tokenizer, &written);
        let flags = flags(grammar, &written, &text);
        let mut reply = match written.complete {
            true => ask.reply(text)?,
            false => Reply { text, stop: StopReason::Length, ..Reply::default() },
        };
        let (input, output) = (prompt.len() as u64, written.tokens.len() as u64);
        reply.usage = Usage { input, output, estimated: false };
        reply.model = self.name.clone();
        reply.unenforced = grammar.map(|grammar| grammar.unenforced.clone()).unwrap_or_default();
        reply.flags = flags;
        Ok(Answer { reply, timing: written.timing })
    }
}

fn text(tokenizer: &Tokenizer, written: &Written) -> String {
    let mut bytes: Vec<u8> = Vec::new();
    for token in written.tokens.iter().filter(|token| !tokenizer.is_special(**token)) {
        bytes.extend(tokenizer.bytes(*token));
    }
    // Under a grammar it is UTF-8; free text can break off in the middle of a character.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a receipt has to say about an answer.
fn flags(grammar: Option<&Grammar>, written: &Written, text: &str) -> Vec<String> {
    let mut flags = Vec::new();
    let touches = |grammar: &Grammar| {
        let value = serde_json::from_str(text);
        value.is_ok_and(|value: Value| grammar.touches_bound(&value))
    };
    if grammar.is_some_and(touches) {
        flags.push("bounded".to_owned());
    }
    for (holds, flag) in [(written.forced_close, "forced_close"), (written.repetition_cut, "repetition_cut")]
    {
        if holds {
            flags.push(flag.to_owned());
        }
    }
    flags
}

fn chance() -> u64 {
    RandomState::new().hash_one(0)
}

/// Compiled grammars, the latest last.
struct Grammars {
    compiler: Compiler,
    kept: Vec<(String, Grammar)>,
}

impl Grammars {
    /// The grammar for an answer of some form within a budget; none for text.
    fn find(&mut self, branches: &[Branch<'_>], tokens: usize) -> Result<Option<&Grammar>, Error> {
        if branches.is_empty() {
            return Ok(None);
        }
        // Bounds are chosen for a round figure, so that a longer prompt does not mean another grammar.
        let tokens = 1 << tokens.max(1).ilog2();
        let mut key = tokens.to_string();
        for branch in branches {
            key.push_str(&format!("\n{} {}", branch.tool.unwrap_or_default(), branch.schema));
        }
        if let Some(place) = self.kept.iter().position(|(known, _)| *known == key) {
            let found = self.kept.remove(place);
            self.kept.push(found);
        } else {
            let grammar = self.compile(branches, tokens)?;
            if self.kept.len() == GRAMMARS_KEPT {
                self.kept.remove(0);
            }
            self.kept.push((key, grammar));
        }
        Ok(self.kept.last().map(|(_, grammar)| grammar))
    }

    /// The grammar with the most generous bounds under which an answer is likely to fit.
    fn compile(&self, branches: &[Branch<'_>], tokens: usize) -> Result<Grammar, Error> {
        let room = (tokens * CHARACTERS_A_TOKEN) as f64;
        let start = Instant::now();
        let mut steps = BOUNDS.iter();
        while let Some((string_characters, items)) = steps.next() {
            let bounds = Bounds { string_characters: *string_characters, items: *items, ..Bounds::default() };
            let grammar = self.compile_within(branches, &bounds).map_err(Error::grammar)?;
            if steps.len() == 0 || grammar.usual_length() <= room {
                return Ok(grammar);
            }
            if start.elapsed() > STEPS_TIME_MAX {
                steps = BOUNDS[BOUNDS.len() - 1..].iter();
            }
        }
        Err(Error::NoToken)
    }

    fn compile_within(&self, branches: &[Branch<'_>], bounds: &Bounds) -> Result<Grammar, grammar::Error> {
        if let [Branch { tool: None, schema }] = branches {
            return self.compiler.compile(schema, bounds);
        }
        let choices: Vec<Choice<'_>> = branches
            .iter()
            .map(|branch| match branch.tool {
                Some(tool) => {
                    Choice { constants: vec![("tool", tool)], member: "arguments", schema: &branch.schema }
                }
                None => Choice { constants: Vec::new(), member: "result", schema: &branch.schema },
            })
            .collect();
        self.compiler.compile_choice(&choices, bounds)
    }
}

//! A loaded model that answers one request after the other.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use slipform_types::{Reply, Request, StopReason, Usage};

use crate::decode::{self, Decoded, Decoding, Limits, Timing};
use crate::error::Error;
use crate::gguf::Gguf;
use crate::grammar::{self, Bounds, Choice, Compiler, Grammar};
use crate::interrupt::Interrupt;
use crate::output_spec::{Branch, OutputSpec};
use crate::prefix_cache::PrefixCache;
use crate::runtime;
use crate::sample::Sampler;
use crate::settled::{Progress, SettledText};
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;

/// The token limit of an answer if neither the request nor the settings have one.
const TOKENS_DEFAULT: u32 = 1_024;

/// The fewest tokens of the context that a prompt must leave for the answer.
const ROOM_MIN: usize = 64;

/// The number of compiled grammars in the cache. Agents reuse a few contracts.
const GRAMMARS_MAX: usize = 8;

/// A low estimate of the characters per output token.
const CHARACTERS_A_TOKEN: usize = 3;

/// Candidate bounds where the schema has none, from generous to tight: characters of a string, items of an array.
const BOUNDS: [(u64, usize); 6] = [(400, 20), (300, 10), (240, 6), (160, 5), (120, 4), (80, 3)];

/// The longest search for bounds. After it, the tightest candidate is used.
const BOUNDS_SEARCH_MAX: Duration = Duration::from_millis(100);

/// Defaults for values that a request does not set.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The sampling temperature; 0 if `None`, which selects the most likely token.
    pub temperature: Option<f64>,
    /// The sampling seed; random if `None`.
    pub seed: Option<u64>,
    /// The most tokens of an answer; 1024 if `None`.
    pub max_tokens: Option<u32>,
    /// The number of computing threads; one less than the number of processors if `None`.
    pub threads: Option<usize>,
}

/// A loaded model with its tokenizer, chat template and grammar cache.
pub struct Model {
    name: String,
    cache: PrefixCache,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    grammars: GrammarCache,
    settings: Settings,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Model").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An answer and its timing.
#[derive(Debug)]
pub struct Answer {
    /// The reply, with exact token counts.
    pub reply: Reply,
    /// The time spent in each phase.
    pub timing: Timing,
}

impl Model {
    /// Loads the GGUF file at `path`.
    ///
    /// # Errors
    /// Fails if the file is unreadable or damaged, or has an unsupported architecture, tokenizer or template.
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
            cache: PrefixCache::new(runtime),
            tokenizer,
            template,
            grammars: GrammarCache { compiler, entries: Vec::new() },
            settings: settings.clone(),
        })
    }

    /// Returns the model's name: the file name without extension.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Answers a request. `progress` receives the number of tokens decoded so far, and the text as soon as it is settled:
    /// free text, and JSON under a grammar that guarantees the whole schema.
    ///
    /// # Errors
    /// Fails if the prompt exceeds the context, the schema has no grammar, or the call is interrupted.
    pub fn answer(
        &mut self,
        request: &Request,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<Answer, Error> {
        let spec = OutputSpec::of(request)?;
        let prompt = self.template.render(&self.tokenizer, &spec.request(request))?;
        let budget = request.max_tokens.or(self.settings.max_tokens).unwrap_or(TOKENS_DEFAULT) as usize;
        let context = self.cache.context();
        let room = context.saturating_sub(prompt.len());
        if room < ROOM_MIN.min(budget) {
            return Err(Error::PromptTooLong { tokens: prompt.len(), context });
        }
        let limits = Limits { tokens: budget.min(room), interrupt };
        let temperature = request.sampling.temperature.or(self.settings.temperature).unwrap_or(0.0);
        let seed = request.sampling.seed.or(self.settings.seed);
        if seed.is_some() {
            // The batch in which a token was evaluated affects its last digits. A seed promises equal answers.
            self.cache.clear();
        }
        let mut sampler = Sampler::new(temperature as f32, seed.unwrap_or_else(random_seed));
        let tokenizer = &self.tokenizer;
        let is_end = |token: u32| tokenizer.eos_tokens().contains(&token);
        let grammar = self.grammars.find(&spec.branches(), limits.tokens)?;
        let is_settled = match &spec {
            OutputSpec::Text => true,
            OutputSpec::Json(_) => grammar.is_some_and(|grammar| grammar.unenforced.is_empty()),
            OutputSpec::Call(_) | OutputSpec::Choice { .. } => false,
        };
        let mut settled = SettledText::new(tokenizer, is_settled);
        let mut report = |decoding: Decoding<'_>| settled.report(decoding, progress);
        let cache = &mut self.cache;
        cache.set_interrupt(interrupt);
        let decoded = match grammar {
            None => decode::free(cache, &prompt, &is_end, &mut sampler, &limits, &mut report)?,
            Some(grammar) => {
                let matcher = grammar.matcher();
                let decoded =
                    decode::constrained(cache, &prompt, &is_end, matcher, &mut sampler, &limits, &mut report);
                match decoded {
                    // An empty reply with stop reason `Length` lets the caller retry with more tokens.
                    Err(Error::BudgetTooSmall { needed, .. }) if needed <= room => Decoded::default(),
                    other => other?,
                }
            }
        };
        report(Decoding { tokens: decoded.tokens.len(), settled: &decoded.tokens });
        let text = text(tokenizer, &decoded);
        let flags = flags(grammar, &decoded, &text);
        let mut reply = if decoded.is_complete {
            spec.reply(text)?
        } else {
            Reply { text, stop: StopReason::Length, ..Reply::default() }
        };
        let (input, output) = (prompt.len() as u64, decoded.tokens.len() as u64);
        reply.usage = Usage { input, output, estimated: false };
        reply.model = self.name.clone();
        reply.unenforced = grammar.map(|grammar| grammar.unenforced.clone()).unwrap_or_default();
        reply.flags = flags;
        Ok(Answer { reply, timing: decoded.timing })
    }
}

fn text(tokenizer: &Tokenizer, decoded: &Decoded) -> String {
    let mut bytes: Vec<u8> = Vec::new();
    for token in decoded.tokens.iter().filter(|token| !tokenizer.is_special(**token)) {
        bytes.extend(tokenizer.bytes(*token));
    }
    // Constrained output is valid UTF-8. Free text may be truncated inside a character.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the receipt flags of an answer.
fn flags(grammar: Option<&Grammar>, decoded: &Decoded, text: &str) -> Vec<String> {
    let mut flags = Vec::new();
    let touches = |grammar: &Grammar| {
        let value = serde_json::from_str(text);
        value.is_ok_and(|value: Value| grammar.touches_bound(&value))
    };
    if grammar.is_some_and(touches) {
        flags.push("bounded".to_owned());
    }
    for (is_set, flag) in [(decoded.forced_close, "forced_close"), (decoded.repetition_cut, "repetition_cut")]
    {
        if is_set {
            flags.push(flag.to_owned());
        }
    }
    flags
}

fn random_seed() -> u64 {
    RandomState::new().hash_one(0)
}

/// A cache of compiled grammars, with the most recently used one last.
struct GrammarCache {
    compiler: Compiler,
    entries: Vec<(String, Grammar)>,
}

impl GrammarCache {
    /// Returns the grammar for these outputs within a token budget; `None` for text.
    fn find(&mut self, branches: &[Branch<'_>], tokens: usize) -> Result<Option<&Grammar>, Error> {
        if branches.is_empty() {
            return Ok(None);
        }
        // Rounding the budget to a power of two lets prompts of similar length share a grammar.
        let tokens = 1 << tokens.max(1).ilog2();
        let mut key = tokens.to_string();
        for branch in branches {
            key.push_str(&format!("\n{} {}", branch.tool.unwrap_or_default(), branch.schema));
        }
        if let Some(position) = self.entries.iter().position(|(known, _)| *known == key) {
            let found = self.entries.remove(position);
            self.entries.push(found);
        } else {
            let grammar = self.compile(branches, tokens)?;
            if self.entries.len() == GRAMMARS_MAX {
                self.entries.remove(0);
            }
            self.entries.push((key, grammar));
        }
        Ok(self.entries.last().map(|(_, grammar)| grammar))
    }

    /// Compiles the grammar with the most generous bounds under which an answer probably fits the budget.
    fn compile(&self, branches: &[Branch<'_>], tokens: usize) -> Result<Grammar, Error> {
        let room = (tokens * CHARACTERS_A_TOKEN) as f64;
        let start = Instant::now();
        let mut candidates = BOUNDS.iter();
        while let Some((string_characters, items)) = candidates.next() {
            let bounds = Bounds { string_characters: *string_characters, items: *items, ..Bounds::default() };
            let grammar = self.compile_within(branches, &bounds).map_err(Error::grammar)?;
            if candidates.len() == 0 || grammar.expected_length() <= room {
                return Ok(grammar);
            }
            if start.elapsed() > BOUNDS_SEARCH_MAX {
                candidates = BOUNDS[BOUNDS.len() - 1..].iter();
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

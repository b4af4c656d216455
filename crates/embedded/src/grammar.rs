//! Compiles a JSON Schema into a grammar for constrained decoding.
//!
//! The grammar is in the Lark dialect of `llguidance`. Its built-in JSON Schema support is not used, because it
//! rejects many schemas that occur in practice.
//!
//! A grammar may be narrower than its schema: strings, arrays, numbers and recursion are bounded, and objects
//! that list their properties are closed. Where it is wider, [`Grammar::unenforced`] lists the keyword. The
//! engine validates every answer afterwards.
//!
//! The steps of a compilation:
//! - [`slipform_schema::normalize`] removes the differences between drafts.
//! - `solve` combines all schemas that apply to a value (`schema_part`) into a form (`form`): a set of values.
//!   `build`, `object`, `array`, `numbers`, `pattern` and `formats` handle the types. `negate` and `satisfies`
//!   handle conditions. `rx` has regular expressions.
//! - `lark` writes the forms as a grammar.
//! - `measure` estimates the length of answers, and [`close()`] finds a short completion of a partial answer.

mod array;
mod build;
mod close;
mod form;
mod formats;
mod lark;
mod measure;
mod negate;
mod numbers;
mod object;
mod pattern;
mod rx;
mod satisfies;
mod schema_part;
mod solve;

use std::panic::{AssertUnwindSafe, catch_unwind};

use llguidance::api::{GrammarInit, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use slipform_schema::{NormalizedSchema, normalize, normalize_together};
use toktrie::{InferenceCapabilities, TokEnv};

pub use close::{CLOSING_TOKENS_MAX, close};
use form::Form;
use schema_part::SchemaPart;
use solve::{Effort, Solver};

/// The separator between items and between members in constrained output.
pub const ITEM_SEPARATOR: &str = ", ";

/// The separator between a member's name and its value in constrained output.
pub const KEY_SEPARATOR: &str = ": ";

/// Bounds for values that the schema does not limit. They keep a rambling model within its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// The most characters of a string without a pattern or format.
    pub string_characters: u64,
    /// The most characters of a string with a pattern or format.
    pub shaped_characters: u64,
    /// The most items of an array.
    pub items: usize,
    /// The most members with unlisted names, and the most items of an array without a schema.
    pub free_items: usize,
    /// The most characters of an unlisted member name.
    pub key_characters: u64,
    /// The deepest nesting of a recursive schema.
    pub recursion: u8,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            string_characters: 400,
            shaped_characters: 120,
            items: 20,
            free_items: 8,
            key_characters: 40,
            recursion: 3,
        }
    }
}

/// The reason why a schema has no grammar.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The schema is invalid or refers to another document.
    #[error("the schema cannot be turned into a grammar")]
    Schema(#[from] slipform_schema::Error),
    /// No value was found that satisfies the schema.
    #[error(
        "found no value that satisfies the schema and that a grammar can express; check for contradictory bounds and types, very large or very small numbers, and nesting deeper than 38"
    )]
    Unsatisfiable,
    /// `llguidance` rejected the grammar, or the schema is too large.
    #[error("the grammar of the schema cannot be built: {0}; simplify the schema")]
    Build(String),
    /// `llguidance` rejected the model's vocabulary.
    #[error("the vocabulary of the model cannot be used: {0}")]
    Vocabulary(String),
}

/// Compiles grammars for one vocabulary.
pub struct Compiler {
    factory: ParserFactory,
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Compiler").finish_non_exhaustive()
    }
}

/// A compiled grammar.
pub struct Grammar {
    matcher: Matcher,
    forms: Vec<Form>,
    root: Form,
    /// The grammar in Lark syntax.
    pub text: String,
    /// The keywords of the schema that the grammar does not guarantee, in order of first occurrence.
    pub unenforced: Vec<String>,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Grammar").field("unenforced", &self.unenforced).finish_non_exhaustive()
    }
}

/// One alternative of [`Compiler::compile_choice`]: an object with fixed members and one described member.
#[derive(Debug, Clone)]
pub struct Choice<'s> {
    /// Members with fixed values, which come first.
    pub constants: Vec<(&'s str, &'s str)>,
    /// The name of the member that satisfies `schema`.
    pub member: &'s str,
    /// The schema of the member's value.
    pub schema: &'s Value,
}

/// The stack size of the solver, which recurses. The system commits memory only for the part in use.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// The most work to build the lexer, in `llguidance` units (about 50,000 per millisecond).
const LEXER_FUEL_MAX: u64 = 5_000_000;

/// The most lexer work for one token mask (about 14,000 units per millisecond). Beyond it the answer fails, so
/// the limit is far above the usual cost.
const STEP_FUEL_MAX: u64 = 3_000_000;

/// The most parser items for one token mask (about 20,000 per millisecond).
const STEP_ITEMS_MAX: usize = 500_000;

/// The most open parser items at one position.
const ROW_ITEMS_MAX: usize = 20_000;

/// Returns the efforts to try in order, until one gives a usable grammar.
fn efforts(recursion: u8) -> Vec<Effort> {
    let full =
        Effort { loops: recursion, variants: 48, steps: 6_000, is_careful: true, enforces_patterns: true };
    let deep = Effort { loops: recursion.saturating_add(6), ..full };
    let shallow = Effort { loops: 1, variants: 12, ..full };
    let flat = Effort { loops: 0, variants: 8, steps: 20_000, is_careful: false, enforces_patterns: true };
    let loose = Effort { loops: 1, ..flat };
    let last = Effort { loops: 0, variants: 1, steps: 40_000, is_careful: false, enforces_patterns: false };
    vec![full, deep, shallow, loose, flat, last, Effort { loops: 3, ..last }]
}

/// The outcome of solving a schema.
enum Outcome {
    Solved(Solved),
    /// The effort was not sufficient.
    Exhausted,
    /// No value satisfies the schema. If `is_cut` is set, the recursion limit may be the cause.
    Empty {
        is_cut: bool,
    },
}

/// A schema solved into forms.
#[derive(Default)]
struct Solved {
    forms: Vec<Form>,
    root: Form,
    unenforced: Vec<String>,
}

impl Compiler {
    /// Creates a compiler for the vocabulary of `env`.
    ///
    /// # Errors
    /// Fails if `llguidance` rejects the vocabulary.
    pub fn new(env: &TokEnv) -> Result<Compiler, Error> {
        let slices = SlicedBiasComputer::json_slices();
        let mut factory = ParserFactory::new(env, InferenceCapabilities::default(), &slices)
            .map_err(|error| Error::Vocabulary(error.to_string()))?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.initial_lexer_fuel = LEXER_FUEL_MAX;
        limits.step_lexer_fuel = STEP_FUEL_MAX;
        limits.step_max_items = STEP_ITEMS_MAX;
        limits.max_items_in_row = ROW_ITEMS_MAX;
        Ok(Compiler { factory })
    }

    /// Compiles a schema.
    ///
    /// # Errors
    /// Fails if the schema refers to another document, admits no value, or is too large.
    pub fn compile(&self, schema: &Value, bounds: &Bounds) -> Result<Grammar, Error> {
        self.compile_normalized(&normalize(schema)?, bounds)
    }

    /// Compiles a choice between objects. Each has constant members and one member that satisfies a schema.
    ///
    /// # Errors
    /// Fails if a schema refers to another document or is too large, or if no schema admits a value.
    pub fn compile_choice(&self, choices: &[Choice<'_>], bounds: &Bounds) -> Result<Grammar, Error> {
        let branches = choices.iter().enumerate().map(|(number, choice)| {
            let mut properties = serde_json::Map::new();
            for (name, value) in &choice.constants {
                properties.insert((*name).to_owned(), json!({"const": value}));
            }
            properties.insert(choice.member.to_owned(), json!({"$ref": format!("{number}#")}));
            let required: Vec<&String> = properties.keys().collect();
            json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
        });
        let root = json!({"anyOf": branches.collect::<Vec<Value>>()});
        let documents: Vec<&Value> = choices.iter().map(|choice| choice.schema).collect();
        self.compile_normalized(&normalize_together(root, &documents)?, bounds)
    }

    /// Compiles on a thread with a large stack, because solving and building recurse.
    fn compile_normalized(&self, normalized: &NormalizedSchema, bounds: &Bounds) -> Result<Grammar, Error> {
        std::thread::scope(|scope| {
            let work = || self.try_efforts(normalized, bounds);
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
            let ended = thread.map(std::thread::ScopedJoinHandle::join);
            ended.map_err(|error| Error::Build(error.to_string()))?.unwrap_or_else(|_| Err(too_large()))
        })
    }

    fn try_efforts(&self, normalized: &NormalizedSchema, bounds: &Bounds) -> Result<Grammar, Error> {
        let mut failure = Error::Unsatisfiable;
        let mut last = Outcome::Exhausted;
        for effort in efforts(bounds.recursion) {
            // A higher recursion limit helps only if recursion was cut, a lower one if the effort was exceeded.
            let is_useful = match &last {
                Outcome::Exhausted | Outcome::Solved(_) => effort.loops <= bounds.recursion,
                Outcome::Empty { is_cut } => {
                    !effort.is_careful || (*is_cut && effort.loops > bounds.recursion)
                }
            };
            if !is_useful {
                continue;
            }
            last = solve(normalized, bounds, effort);
            if let Outcome::Solved(solved) = &mut last {
                match self.build(std::mem::take(solved)) {
                    // A grammar without a complete answer is unusable.
                    Ok(grammar) if close(&grammar.matcher()).is_none() => failure = no_end(),
                    Ok(grammar) => return Ok(grammar),
                    Err(error) => failure = error,
                }
            }
        }
        match (&failure, &last) {
            (Error::Unsatisfiable, Outcome::Exhausted) => Err(too_large()),
            _ => Err(failure),
        }
    }

    fn build(&self, solved: Solved) -> Result<Grammar, Error> {
        let text = lark::grammar(&solved.forms, &solved.root);
        let init = GrammarInit::Serialized(TopLevelGrammar::from_lark(text.clone()));
        // A panic in the library must not end the process.
        let parser = catch_unwind(AssertUnwindSafe(|| self.factory.create_parser_from_init_default(init)))
            .map_err(|_| Error::Build("the grammar library failed".to_owned()))?;
        let parser = parser.map_err(|error| Error::Build(first_line(&error.to_string())))?;
        let matcher = Matcher::new(Ok(parser));
        let Solved { forms, root, unenforced } = solved;
        Ok(Grammar { matcher, forms, root, text, unenforced })
    }
}

impl Grammar {
    /// Returns a matcher at the start of an answer.
    pub fn matcher(&self) -> Matcher {
        self.matcher.deep_clone()
    }

    /// Estimates the length of an answer, in characters.
    pub fn expected_length(&self) -> f64 {
        measure::expected_length(&self.forms, &self.root)
    }

    /// Returns whether the grammar can produce a value, ignoring the order of members.
    pub fn admits(&self, value: &Value) -> bool {
        form::admits(&self.forms, &self.root, value)
    }

    /// Returns whether a string, array or object reaches a bound of the grammar that is not in the schema, so
    /// that the answer may be incomplete.
    pub fn touches_bound(&self, value: &Value) -> bool {
        form::touches_bound(&self.forms, &self.root, value)
    }
}

/// Returns the first line of a library error. The other lines describe internals.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn no_end() -> Error {
    Error::Build(format!("found no answer with at most {CLOSING_TOKENS_MAX} tokens"))
}

fn too_large() -> Error {
    Error::Build("it is too large or too entangled".to_owned())
}

/// Solves a schema with a limited effort.
fn solve(normalized: &NormalizedSchema, bounds: &Bounds, effort: Effort) -> Outcome {
    let mut solver = Solver::new(normalized, bounds, effort);
    solver.unenforced.extend(normalized.dynamic.map(str::to_owned));
    let root = solver.form(vec![SchemaPart::Document(&normalized.root)], 0);
    if solver.is_exhausted() {
        Outcome::Exhausted
    } else if root.is_never() {
        Outcome::Empty { is_cut: solver.is_cut }
    } else {
        Outcome::Solved(Solved { forms: solver.forms, root, unenforced: solver.unenforced })
    }
}

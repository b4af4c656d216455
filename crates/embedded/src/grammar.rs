//! The grammar of a contract: from a JSON Schema to what a weak model decodes under.
//!
//! The grammar is written by ourselves, in `llguidance`'s dialect of Lark, because its own reading of JSON
//! Schema refuses much of what people write. A schema is made [normalized](slipform_schema::normalize), solved
//! into forms (`solve`, with one file for objects, arrays and the rest), and written down (`lark`). It may be
//! narrower than the schema: strings, arrays, numbers and recursion are bounded, objects that list their
//! properties are closed. Where it has to be wider, the keyword is in [`Grammar::unenforced`]. Validation
//! always runs afterwards.

mod array;
mod build;
mod close;
mod form;
mod formats;
mod holds;
mod lark;
mod measure;
mod negate;
mod numbers;
mod object;
mod pattern;
mod rx;
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

/// What stands between items and members.
pub const ITEM_SEPARATOR: &str = ", ";

/// What stands between a name and its value.
pub const KEY_SEPARATOR: &str = ": ";

/// The bounds of what the schema leaves open. They keep a model that rambles within its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// The most characters of a string without a pattern or a format.
    pub string_characters: u64,
    /// The most characters of a string with one.
    pub shaped_characters: u64,
    /// The most items of an array.
    pub items: usize,
    /// The most members with names of their own in a free object, and items where anything is allowed.
    pub free_items: usize,
    /// The most characters of a name that the schema does not list.
    pub key_characters: u64,
    /// How many times a schema may be repeated inside itself.
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

/// Why there is no grammar for a schema.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The schema itself cannot be read.
    #[error("the schema cannot be turned into a grammar")]
    Schema(#[from] slipform_schema::Error),
    /// No value satisfies the schema, as far as can be told.
    #[error(
        "no value was found that satisfies the schema and that a grammar can write; look for bounds and types that exclude one another, for very large or very small numbers, and for nesting deeper than 38"
    )]
    Unsatisfiable,
    /// The grammar cannot be built.
    #[error("the grammar of the schema cannot be built: {0}; simplify the schema")]
    Build(String),
    /// The vocabulary cannot be used.
    #[error("the vocabulary of the model cannot be used: {0}")]
    Vocabulary(String),
}

/// Builds grammars for one vocabulary.
pub struct Compiler {
    factory: ParserFactory,
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Compiler").finish_non_exhaustive()
    }
}

/// The grammar of one schema.
pub struct Grammar {
    matcher: Matcher,
    forms: Vec<Form>,
    root: Form,
    /// The grammar as it was handed to `llguidance`.
    pub text: String,
    /// The keywords of the schema that the grammar does not guarantee, by first occurrence.
    pub unenforced: Vec<String>,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Grammar").field("unenforced", &self.unenforced).finish_non_exhaustive()
    }
}

/// One of several objects that may be written.
#[derive(Debug, Clone)]
pub struct Choice<'s> {
    /// Members with fixed values, which come first.
    pub constants: Vec<(&'s str, &'s str)>,
    /// The member that satisfies the schema.
    pub member: &'s str,
    /// The schema.
    pub schema: &'s Value,
}

/// The stack for solving, which recurses. It is address space, used only as far as the recursion goes.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// What building the lexer may cost, in the units of `llguidance` (50,000 a millisecond).
const LEXER_FUEL_MAX: u64 = 5_000_000;

/// What the mask of one token may cost the lexer (14,000 a millisecond). Beyond it the answer fails, so it is
/// far above what masks take.
const STEP_FUEL_MAX: u64 = 3_000_000;

/// What the mask of one token may cost the parser, in items (20,000 a millisecond).
const STEP_ITEMS_MAX: usize = 500_000;

/// The most items that may be open at one place of the answer.
const ROW_ITEMS_MAX: usize = 20_000;

/// What is tried one after the other, until one gives a grammar that can be built.
fn efforts(recursion: u8) -> Vec<Effort> {
    let full = Effort { loops: recursion, variants: 48, steps: 6_000, careful: true, patterns: true };
    let deep = Effort { loops: recursion.saturating_add(6), ..full };
    let shallow = Effort { loops: 1, variants: 12, ..full };
    let flat = Effort { loops: 0, variants: 8, steps: 20_000, careful: false, patterns: true };
    let loose = Effort { loops: 1, ..flat };
    let last = Effort { loops: 0, variants: 1, steps: 40_000, careful: false, patterns: false };
    vec![full, deep, shallow, loose, flat, last, Effort { loops: 3, ..last }]
}

/// What came of solving a schema.
enum Outcome {
    Solved(Solved),
    /// It would have taken more than the effort.
    Exhausted,
    /// No value satisfies the schema, perhaps only because recursion was cut.
    Empty {
        cut: bool,
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
    /// A compiler for the vocabulary of `env`.
    ///
    /// # Errors
    /// When the vocabulary cannot be used.
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

    /// The grammar of a schema.
    ///
    /// # Errors
    /// When the schema refers outside itself, admits nothing, or is too large.
    pub fn compile(&self, schema: &Value, bounds: &Bounds) -> Result<Grammar, Error> {
        self.compile_normalized(&normalize(schema)?, bounds)
    }

    /// The grammar of an object with one member more than those given as constants, whose value satisfies a
    /// schema; one object of several, for those who choose.
    ///
    /// # Errors
    /// When one of the schemas refers outside itself or is too large, or none admits anything.
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

    /// Compiles on a thread of its own, because solving and building recurse.
    fn compile_normalized(&self, plain: &NormalizedSchema, bounds: &Bounds) -> Result<Grammar, Error> {
        std::thread::scope(|scope| {
            let work = || self.try_efforts(plain, bounds);
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
            let ended = thread.map(std::thread::ScopedJoinHandle::join);
            ended.map_err(|error| Error::Build(error.to_string()))?.unwrap_or_else(|_| Err(too_large()))
        })
    }

    fn try_efforts(&self, plain: &NormalizedSchema, bounds: &Bounds) -> Result<Grammar, Error> {
        let mut failure = Error::Unsatisfiable;
        let mut last = Outcome::Exhausted;
        for effort in efforts(bounds.recursion) {
            // More recursion helps only where recursion was cut, and less where something was too much.
            let is_useful = match &last {
                Outcome::Exhausted | Outcome::Solved(_) => effort.loops <= bounds.recursion,
                Outcome::Empty { cut } => !effort.careful || (*cut && effort.loops > bounds.recursion),
            };
            if !is_useful {
                continue;
            }
            last = solve(plain, bounds, effort);
            if let Outcome::Solved(solved) = &mut last {
                match self.build(std::mem::take(solved)) {
                    // What has no end is of no use, however well it was built.
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
        // A fault in the library must not take the process with it.
        let parser = catch_unwind(AssertUnwindSafe(|| self.factory.create_parser_from_init_default(init)))
            .map_err(|_| Error::Build("the grammar library failed".to_owned()))?;
        let parser = parser.map_err(|error| Error::Build(first_line(&error.to_string())))?;
        let matcher = Matcher::new(Ok(parser));
        let Solved { forms, root, unenforced } = solved;
        Ok(Grammar { matcher, forms, root, text, unenforced })
    }
}

impl Grammar {
    /// A matcher at the start of an answer.
    pub fn matcher(&self) -> Matcher {
        self.matcher.deep_clone()
    }

    /// The length that answers are likely to have, in characters.
    pub fn usual_length(&self) -> f64 {
        measure::usual_length(&self.forms, &self.root)
    }

    /// Whether the grammar could have written a value, whatever the order of its members.
    pub fn admits(&self, value: &Value) -> bool {
        form::admits(&self.forms, &self.root, value)
    }

    /// Whether some part of an answer ends where it does perhaps only because the grammar's own bounds, which
    /// the schema knows nothing of, allowed no more.
    pub fn touches_bound(&self, value: &Value) -> bool {
        form::touches_bound(&self.forms, &self.root, value)
    }
}

/// The library adds lines of its own workings.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn no_end() -> Error {
    Error::Build(format!("it has no answer of at most {CLOSING_TOKENS_MAX} tokens, or none was found"))
}

fn too_large() -> Error {
    Error::Build("it is too large or too entangled".to_owned())
}

/// Solves a schema with some effort.
fn solve(plain: &NormalizedSchema, bounds: &Bounds, effort: Effort) -> Outcome {
    let mut solver = Solver::new(plain, bounds, effort);
    solver.unenforced.extend(plain.dynamic.map(str::to_owned));
    let root = solver.form(vec![SchemaPart::Document(&plain.root)], 0);
    if solver.is_exhausted() {
        Outcome::Exhausted
    } else if root.is_never() {
        Outcome::Empty { cut: solver.cut }
    } else {
        Outcome::Solved(Solved { forms: solver.forms, root, unenforced: solver.unenforced })
    }
}

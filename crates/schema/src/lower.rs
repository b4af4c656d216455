//! Rewrites a contract's schema into the keywords that one backend enforces, and lists the keywords that are
//! lost.
//!
//! Backends ignore some keywords silently and refuse others. The lowered schema may be narrower than the
//! contract, but it is never silently wider. Every keyword that the backend does not enforce is in
//! [`Lowered::lost`], and validation checks it afterwards.
//!
//! Modules, in reading order: `rules` has the capabilities of each dialect, `draft` the keywords of each
//! draft, `lowering` walks the document. `flatten` and `conjunction` join schemas that apply to the same value.
//! `unions`, `objects` and `leaves` write the lowered keywords. `restore` reverts nulls in replies.

mod conjunction;
pub(crate) mod draft;
mod flatten;
mod leaves;
mod lowering;
mod objects;
mod restore;
mod rules;
mod unions;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::check_depth;
use crate::refs::References;
pub use restore::restore;

/// A family of backends that enforce the same part of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Dialect {
    /// OpenAI's strict structured outputs.
    #[serde(rename = "openai")]
    OpenAi,
    /// Anthropic's structured outputs and strict tools.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// LM Studio.
    #[serde(rename = "lmstudio")]
    LmStudio,
    /// Ollama.
    #[serde(rename = "ollama")]
    Ollama,
    /// The server of llama.cpp.
    #[serde(rename = "llama.cpp")]
    LlamaCpp,
    /// vLLM.
    #[serde(rename = "vllm")]
    Vllm,
    /// An unknown backend: it receives the schema unchanged.
    #[serde(rename = "generic")]
    Generic,
}

impl Dialect {
    /// All dialects, in the order in which messages list them.
    pub const ALL: [Dialect; 7] = [
        Dialect::OpenAi,
        Dialect::Anthropic,
        Dialect::LmStudio,
        Dialect::Ollama,
        Dialect::LlamaCpp,
        Dialect::Vllm,
        Dialect::Generic,
    ];

    /// Returns the name in configuration files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::OpenAi => "openai",
            Dialect::Anthropic => "anthropic",
            Dialect::LmStudio => "lmstudio",
            Dialect::Ollama => "ollama",
            Dialect::LlamaCpp => "llama.cpp",
            Dialect::Vllm => "vllm",
            Dialect::Generic => "generic",
        }
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl std::str::FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Dialect, String> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name).ok_or_else(|| {
            let names = Dialect::ALL.map(Dialect::name).join(", ");
            format!("'{name}' is not a known dialect; use one of {names}")
        })
    }
}

/// A schema in the form that a backend accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered {
    /// The schema to send.
    pub schema: Value,
    /// Whether the backend enforces `schema`. If not, `schema` is the contract's own, sent as a hint.
    pub strict: bool,
    /// The contract's keywords that the backend does not enforce, sorted and unique.
    pub lost: Vec<String>,
    /// Whether optional properties were made nullable, so that replies need [`restore`].
    pub needs_restore: bool,
}

/// Rewrites `schema` into what backends of this dialect enforce.
pub fn lower(schema: &Value, dialect: Dialect) -> Lowered {
    let Some(rules) = rules::of(dialect) else {
        return Lowered { schema: schema.clone(), strict: true, lost: Vec::new(), needs_restore: false };
    };
    // Lowering recurses, so it has the same depth limit as compiling.
    if check_depth(schema).is_err() {
        return unenforced(schema);
    }
    let references = References::collect(schema);
    lowering::Lowering::new(schema, &references, rules).run().unwrap_or_else(|| unenforced(schema))
}

/// Returns the schema unchanged, with all its keywords listed as not enforced.
fn unenforced(schema: &Value) -> Lowered {
    let lost: BTreeSet<String> = draft::constraining_keywords(schema);
    Lowered { schema: schema.clone(), strict: false, lost: lost.into_iter().collect(), needs_restore: false }
}

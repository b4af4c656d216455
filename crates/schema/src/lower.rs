//! A contract's schema in the dialect that one backend enforces, with a list of what is lost.
//!
//! Backends ignore some keywords without a word and refuse others. [`lower`] rewrites a schema into what
//! the backend really enforces. The result may be narrower than the contract (everything it admits, the
//! contract admits) and never silently wider: each keyword that is no longer enforced is in
//! [`Lowered::lost`] and has to be checked afterwards.

mod conjunction;
pub(crate) mod draft;
mod engine;
mod flatten;
mod leaves;
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
    /// A backend of which nothing is known: it gets the schema as it is.
    #[serde(rename = "generic")]
    Generic,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 7] = [
        Dialect::OpenAi,
        Dialect::Anthropic,
        Dialect::LmStudio,
        Dialect::Ollama,
        Dialect::LlamaCpp,
        Dialect::Vllm,
        Dialect::Generic,
    ];

    /// The name in configuration files and messages.
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

/// A schema as a backend takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered {
    /// The schema to send.
    pub schema: Value,
    /// Whether the backend enforces the schema. If not, it is the contract's own schema, sent as a hint.
    pub strict: bool,
    /// The keywords of the contract that the backend does not enforce, sorted, each once.
    pub lost: Vec<String>,
    /// Whether optional properties were made nullable, so that answers need [`restore`].
    pub nulls: bool,
}

/// Rewrites `schema` into what backends of this dialect enforce.
pub fn lower(schema: &Value, dialect: Dialect) -> Lowered {
    let Some(rules) = rules::of(dialect) else {
        return Lowered { schema: schema.clone(), strict: true, lost: Vec::new(), nulls: false };
    };
    // Lowering recurses, so what is too deep to be compiled is not lowered either.
    if check_depth(schema).is_err() {
        return unenforced(schema);
    }
    let references = References::collect(schema);
    engine::Engine::new(schema, &references, rules).run().unwrap_or_else(|| unenforced(schema))
}

/// The schema as it is, of which the backend enforces nothing.
fn unenforced(schema: &Value) -> Lowered {
    let lost: BTreeSet<String> = draft::constraining_keywords(schema);
    Lowered { schema: schema.clone(), strict: false, lost: lost.into_iter().collect(), nulls: false }
}

//! Extracts a JSON value from text that a model wrote, repairs it and validates it against a JSON Schema.
//!
//! Modules, in the order in which a text passes through them:
//!
//! - `options`, `outcome`, `repair`: the input and output types.
//! - `extract`: the entry points, which call the steps below.
//! - `memory`: a budget for the memory of parsed values.
//! - `strict`: parses RFC 8259 only. A clean reply needs no further step.
//! - `reasoning`: separates a model's reasoning from its answer.
//! - `scan`: finds documents in one linear pass: in code fences, after tags, in prose.
//! - `parse`: parses malformed JSON and records every change as a [`Repair`].
//! - `coerce`: fits a value to its schema with the fewest changes (lenient mode only).
//! - `choose`: selects the candidate that satisfies the schema, else the closest one.
//! - `locate`: finds the places in the text that repairs changed.
//!
//! Every step takes time linear in the text and bounded stack. An extraction takes memory of at most 8 times the text
//! and 32 MiB. A value that is returned as valid has always passed full validation.
//!
//! ```
//! use slipform_extract::{Options, Outcome, extract};
//! use slipform_schema::Schema;
//! use serde_json::json;
//!
//! let schema = Schema::compile(&json!({
//!     "type": "object",
//!     "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
//!     "required": ["name", "age"],
//! }))?;
//! let reply = "Sure! ```json\n{name: 'Ada', \"age\": \"36\",}\n```";
//!
//! // Strict mode repairs syntax, but a string is not an integer.
//! let Outcome::Invalid { violations, .. } = extract(reply, Some(&schema), &Options::default()) else {
//!     panic!("strict mode never coerces");
//! };
//! assert_eq!(violations.lines(), ["$.age: must be an integer, not a string ('36')"]);
//!
//! // Lenient mode coerces the string and records a repair.
//! let outcome = extract(reply, Some(&schema), &Options::lenient());
//! assert_eq!(outcome.valid(), Some(&json!({"name": "Ada", "age": 36})));
//! # Ok::<(), slipform_schema::Error>(())
//! ```
//!
//! Not in this crate: models, retries, files, sockets, clocks.

mod choose;
mod coerce;
mod extract;
mod locate;
mod memory;
mod options;
mod outcome;
mod parse;
mod reasoning;
mod repair;
mod scan;
mod strict;

pub use extract::{extract, extract_bytes};
pub use locate::{Location, locate};
pub use options::{Mode, NESTING_MAX, Options, TEXT_BYTES_MAX};
pub use outcome::{Extraction, Outcome};
pub use repair::{Repair, RepairKind};

//! From any text a model may produce to a JSON value that satisfies a JSON Schema, or to a precise list
//! of what is wrong.
//!
//! The way of a text, one file a step:
//!
//! - `strict` reads RFC 8259 and nothing else. Clean replies go no further.
//! - `thought` tells a model's thinking from its answer.
//! - `scan` finds documents in one linear pass: in fences, behind tags, in the open.
//! - `parse` reads what models write instead of JSON, and names every change as a [`Repair`].
//! - `coerce` fits a value to its schema, the least change first (lenient mode only).
//! - `choose` picks the candidate that satisfies the schema, else the closest.
//!
//! Everything takes time linear in the text and bounded stack, whatever the text is. The result is
//! always validated in full: there is no invalid success.
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
//! // Lenient mode reads it, and says so.
//! let outcome = extract(reply, Some(&schema), &Options::lenient());
//! assert_eq!(outcome.valid(), Some(&json!({"name": "Ada", "age": 36})));
//! # Ok::<(), slipform_schema::Error>(())
//! ```
//!
//! Not in here: models, retries, files, sockets, clocks.

mod choose;
mod coerce;
mod extract;
mod options;
mod outcome;
mod parse;
mod reasoning;
mod repair;
mod scan;
mod strict;

pub use extract::{extract, extract_bytes};
pub use options::{Mode, NESTING_MAX, Options, TEXT_BYTES_MAX};
pub use outcome::{Extraction, Outcome};
pub use repair::{Repair, RepairKind};

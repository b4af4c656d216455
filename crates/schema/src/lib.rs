//! Compiles JSON Schemas and validates untrusted values against them in bounded time, memory and stack.
//!
//! Compiling never opens a socket or a file. `$schema` selects the draft; the default is draft 7.
//!
//! Modules, in reading order:
//!
//! - `schema`: [`Schema`] and [`Compiler`]. `cache`: the [`Cache`] of compiled schemas by hash.
//! - `draft`: [`declare_draft`] finds the draft that a schema without `$schema` is written in.
//! - `google`: rewrites schemas in the form of Google's APIs.
//! - `limits`: size and nesting limits, checked before a document is compiled.
//! - `memory`, `pattern_size`: estimate the memory of a compiled schema and of its patterns, to refuse large ones.
//! - `budget`: a step limit for validation that could take exponential time.
//! - `explain`, `violation`, `wording`: turn the validator's errors into [`Violation`]s that a model can act
//!   on.
//! - `path`: JSONPath and JSON Pointer.
//! - `walk`, `refs`: find the subschemas of a document and resolve its references.
//! - `shape`: [`Shape`], a view of one place of a schema, used by `slipform-extract` to coerce values.
//! - `lint`: finds likely mistakes in schemas that compile.
//! - `impossible`: [`impossible_part`] finds schemas that no value satisfies.
//! - `lower`: [`lower`] rewrites a schema into the keywords that a backend enforces; [`restore`] reverts its
//!   nulls in replies.
//! - `wrap`: [`wrap_root`] puts a schema under a root object; [`subschema_document`] extracts one place as a
//!   document.
//! - `compact`: [`compact`] renders a schema as a typed skeleton for prompts.
//! - `narrow`: [`narrow`] bounds strings and arrays so that a reply fits a budget.
//! - `normalize`: [`normalize`] removes the differences between drafts, for grammar compilers.
//! - `publish`, `portable`: [`publish_input`] and [`publish_output`] rewrite a schema so that other validators read it in
//!   the same way.
//! - `shipped`: [`shipped`] returns the schemas that come with the program.
//! - [`universal`]: the rules of the universal response that its schema cannot express.
//!
//! ```
//! use slipform_schema::Schema;
//! use serde_json::json;
//!
//! let schema = Schema::compile(&json!({
//!     "type": "object",
//!     "properties": {"severity": {"enum": ["low", "medium", "high"]}},
//!     "required": ["severity", "summary"],
//! }))?;
//! let violations = schema.violations(&json!({"severity": "critical"}));
//! assert_eq!(
//!     violations.lines(),
//!     [
//!         "$.severity: 'critical' is not one of ['low', 'medium', 'high']",
//!         "$.summary: required property is missing",
//!     ]
//! );
//! # Ok::<(), slipform_schema::Error>(())
//! ```
//!
//! Not in this crate: finding JSON in text and changing values (`slipform-extract`), and compiling grammars
//! (`slipform-embedded`).

mod budget;
mod cache;
mod compact;
mod draft;
mod error;
mod explain;
mod google;
mod impossible;
mod limits;
mod lint;
mod lower;
mod memory;
mod narrow;
mod normalize;
mod path;
mod pattern_size;
mod portable;
mod publish;
mod refs;
mod schema;
mod shape;
mod shipped;
pub mod universal;
mod violation;
mod walk;
mod wording;
mod wrap;

pub use budget::{EXPLANATION_STEPS_MAX, VALIDATION_STEPS_MAX};
pub use cache::{CACHE_BYTES_MAX, Cache};
pub use compact::{compact, compact_within};
pub use draft::declare_draft;
pub use error::Error;
pub use impossible::impossible_part;
pub use jsonschema::Draft;
pub use limits::{
    EXPANSION_MAX, PATTERNS_MAX, SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, SUBSCHEMAS_MAX, VALUE_DEPTH_MAX,
};
pub use lint::{Warning, lint};
pub use lower::{Dialect, Lowered, lower, restore};
pub use memory::{COMPILED_BYTES_MAX, COMPILED_PATTERNS_BYTES_MAX};
pub use narrow::narrow;
pub use normalize::{NormalizedSchema, normalize, normalize_together};
pub use path::{
    PatternStep, Segment, escape_pointer, json_path, json_pointer, parse_json_path, parse_pattern,
    unescape_pointer,
};
pub use publish::{Published, is_always_object, publish_input, publish_output};
pub use schema::{Compiler, Schema, schema_errors, schema_hash};
pub use shape::{Additional, Shape, Types};
pub use shipped::{Shipped, shipped};
pub use violation::{VIOLATIONS_MAX, Violation, Violations};
pub use wrap::{needs_wrapping, subschema_document, wrap_root};

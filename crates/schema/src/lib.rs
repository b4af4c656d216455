//! JSON Schema, compiled once and safe to use on anything a stranger sends.
//!
//! - [`Schema`] compiles a document (Draft 7 by default, 2019-09 and 2020-12 by `$schema`) and checks
//!   values against it. Compiling never opens a socket or a file, and neither compiling nor checking
//!   takes unbounded time or stack, whatever the schema or the value.
//! - [`Violation`]s say where and what is wrong in words that a model can act on.
//! - [`lint`] finds what a person most likely did wrong in a schema that compiles all the same.
//! - [`Shape`] tells what a value is meant to look like, for those who want to help it fit.
//! - [`lower`] rewrites a schema into what a backend enforces and lists what is lost; [`restore`] undoes
//!   in an answer what that took.
//! - [`wrap_root`] puts a schema under a root object, for backends that take nothing else, and
//!   [`subschema_document`] takes the schema of one place out of a document.
//! - [`compact`] shows a schema to a model as a typed skeleton; [`narrow`] bounds what it may write.
//! - [`Cache`] keeps compiled schemas by hash.
//! - [`shipped`] are the schemas that come with the program. [`universal`] has what the universal response
//!   has to satisfy beyond its schema.
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
//! Not in here: finding JSON in text and changing values (`slipform-extract`).

mod budget;
mod compact;
mod error;
mod explain;
mod limits;
mod lint;
mod lower;
mod narrow;
mod normalize;
mod path;
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
pub use compact::{compact, compact_within};
pub use error::Error;
pub use jsonschema::Draft;
pub use limits::{
    EXPANSION_MAX, PATTERNS_MAX, SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, SUBSCHEMAS_MAX, VALUE_DEPTH_MAX,
};
pub use lint::{Warning, lint};
pub use lower::{Dialect, Lowered, lower, restore};
pub use narrow::narrow;
pub use normalize::{NormalizedSchema, normalize, normalize_together};
pub use path::{
    PatternStep, Segment, escape_pointer, json_path, json_pointer, parse_json_path, parse_pattern,
    unescape_pointer,
};
pub use schema::{Cache, Compiler, Schema};
pub use shape::{Additional, Shape, Types};
pub use shipped::{Shipped, shipped};
pub use violation::{VIOLATIONS_MAX, Violation, Violations};
pub use wrap::{needs_wrapping, subschema_document, wrap_root};

//! From any text a model may produce to a JSON value that satisfies a JSON Schema.
mod choose;
mod coerce;
mod extract;
mod options;
mod outcome;
mod parse;
mod repair;
mod scan;
mod strict;
mod thought;

pub use extract::{extract, extract_bytes};
pub use options::{Mode, NESTING_MAX, Options, TEXT_BYTES_MAX};
pub use outcome::{Extraction, Outcome};
pub use repair::{Repair, RepairKind};

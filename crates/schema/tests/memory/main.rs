//! Tests of the memory that schemas take: hostile ones are refused or stay within the limit, real ones compile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "tests print which corpora they skip")]

mod hostile;
mod real;

use serde_json::{Value, json};
use slipform_schema::{Error, Schema};
use slipform_testkit::{CountingAllocator, Usage, measure_memory};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Compiles a schema, and measures it without the rules of the drafts, which the first use of each draft compiles.
fn compile_measured(source: &Value) -> (Result<Schema, Error>, Usage) {
    let draft =
        source.get("$schema").cloned().unwrap_or_else(|| json!("http://json-schema.org/draft-07/schema#"));
    let _ = Schema::compile(&json!({"$schema": draft}));
    measure_memory(|| Schema::compile(source))
}

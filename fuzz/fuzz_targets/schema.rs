//! Fuzzes schema compilation, linting and validation: any JSON schema is refused or usable, without a panic.
#![no_main]

use slipform_schema::{Schema, lint};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let Some(Ok(source)) = documents.next() else { return };
    let _ = lint(&source);
    let Ok(schema) = Schema::compile(&source) else { return };
    let value = documents.next().and_then(Result::ok).unwrap_or_default();
    assert_eq!(schema.is_valid(&value), schema.violations(&value).is_empty());
});

//! Fuzzes the tolerant parser against any schema: a value that it returns satisfies the schema.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use slipform_extract::{Options, Outcome, extract_bytes};
use slipform_schema::Schema;

fuzz_target!(|input: (&str, &[u8])| {
    let (source, text) = input;
    let Ok(source) = serde_json::from_str::<Value>(source) else { return };
    let Ok(schema) = Schema::compile(&source) else { return };
    for options in [Options::default(), Options::lenient()] {
        if let Outcome::Valid(extraction) = extract_bytes(text, Some(&schema), &options) {
            assert!(schema.is_valid(&extraction.value), "{}", extraction.value);
        }
    }
});

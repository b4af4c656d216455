//! Fuzzes extraction of any bytes in both modes, with and without a schema: it must not panic, must not return an invalid
//! value, and must extract its own output unchanged.
#![no_main]

use std::sync::LazyLock;

use slipform_extract::{Options, Outcome, extract, extract_bytes};
use slipform_schema::Schema;
use libfuzzer_sys::fuzz_target;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let source = serde_json::json!({
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"enum": ["x", "y"]},
            "c": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#"}]}},
        },
        "additionalProperties": false,
    });
    Schema::compile(&source).expect("a valid schema")
});

fuzz_target!(|bytes: &[u8]| {
    for options in [Options::default(), Options::lenient()] {
        if let Outcome::Valid(extraction) = extract_bytes(bytes, Some(&SCHEMA), &options) {
            assert!(SCHEMA.is_valid(&extraction.value));
        }
        if let Outcome::Valid(first) = extract_bytes(bytes, None, &options) {
            let written = first.value.to_string();
            let second = extract(&written, None, &options);
            assert_eq!(second.valid(), Some(&first.value));
        }
    }
});

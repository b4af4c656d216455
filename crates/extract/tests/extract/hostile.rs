//! Malicious texts: extraction ends in bounded time and stack, and never returns a part as the whole.

use serde_json::json;
use slipform_extract::{NESTING_MAX, Options, Outcome, extract};
use slipform_schema::Schema;

const MODES: [fn() -> Options; 2] = [Options::default, Options::lenient];

#[test]
fn repeated_fragment_is_extracted_in_bounded_time() {
    let units = [
        "{",
        "[",
        "(",
        "\"",
        "\\",
        "'",
        "`",
        "{\"",
        "[\"",
        "{\"a\":",
        "[{",
        "{a: ",
        "{'a' ",
        "\"\\",
        "```{",
        "```:",
        "<think>{",
        "THINK]",
        "[/*",
        "{//",
        ",",
        "}",
        "a:",
        "[...",
        "{\"a\": x\n\n",
        "x=[",
        "f(x=[",
        "\"a\": {",
        "> {",
        "“[“",
        "{\"a\": \"b\n",
        "see [1] and {x} ",
        "[\"a\", b(",
        "{\"k\": [(\"x\", \"y.),\n",
        "1 ",
        " \n",
        "\u{feff}",
        "é",
        "[1,",
        "{\"a\":1}",
    ];
    for unit in units {
        // The simplest units run at full size, the others smaller; the benchmark measures growth.
        let length = if unit.len() == 1 { 1_000_000 } else { 150_000 };
        let text = unit.repeat(length / unit.len());
        for options in MODES {
            let _ = extract(&text, None, &options());
        }
    }
}

#[test]
fn document_above_nesting_limit_is_refused_as_a_whole() {
    let nested = |depth: usize| format!("{}{{\"a\": 1}}{}", "[".repeat(depth), "]".repeat(depth));
    for options in MODES {
        assert!(extract(&nested(NESTING_MAX - 1), None, &options()).valid().is_some());
        for depth in [NESTING_MAX, NESTING_MAX + 70, 10_000] {
            for text in [nested(depth), format!("Here: {}", nested(depth)), nested(depth).replace('"', "'")] {
                let outcome = extract(&text, None, &options());
                assert!(outcome.valid().is_none(), "{depth} levels gave {outcome:?}");
            }
        }
    }
}

#[test]
fn document_at_nesting_limit_is_repaired_and_coerced() {
    let schema = Schema::compile(&json!({
        "$ref": "#/definitions/node",
        "definitions": {"node": {"anyOf": [
            {"type": "integer"},
            {"type": "object", "properties": {"next": {"$ref": "#/definitions/node"}}, "required": ["next"]},
        ]}},
    }))
    .unwrap();
    let depth = NESTING_MAX;
    let text = format!("{}\"7\"{}", "{next: ".repeat(depth), ",}".repeat(depth));
    let outcome = extract(&text, Some(&schema), &Options::lenient());
    assert!(matches!(outcome, Outcome::Valid(_) | Outcome::Invalid { .. }), "{outcome:?}");
}

#[test]
fn coercion_to_recursive_schema_ends() {
    let lists =
        json!({"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}});
    let unions = json!({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [
        {"type": "integer"},
        {"type": "array", "items": {"$ref": "#/$defs/n"}},
    ]}}});
    for schema in [lists, unions] {
        let schema = Schema::compile(&schema).unwrap();
        for text in ["\"x\"", "hello", "[1, \"two\"]", "I cannot do that."] {
            let outcome = extract(text, Some(&schema), &Options::lenient());
            assert!(outcome.valid().is_none(), "{text} gave {outcome:?}");
        }
    }
}

#[test]
fn text_above_length_limit_is_refused() {
    let options = Options { text_bytes_max: 10, ..Options::default() };
    assert_eq!(extract("{\"a\": 12345}", None, &options), Outcome::TooLong { bytes: 12, limit: 10 });
}

#[test]
fn long_line_after_a_fence_may_be_cut_inside_a_character() {
    for shift in 0..4 {
        let title = "é€😀".repeat(60);
        let text = format!("```json{}{title}\n{{\"a\": 1}}\n```", " ".repeat(shift));
        let outcome = extract(&text, None, &Options::default());
        assert_eq!(outcome.valid(), Some(&json!({"a": 1})), "{shift}");
    }
}

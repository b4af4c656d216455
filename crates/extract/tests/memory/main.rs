//! Tests of the memory that extraction takes: at most 8 times the text and 32 MiB, for any text.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};
use slipform_extract::{Options, Outcome, extract};
use slipform_schema::Schema;
use slipform_testkit::{CountingAllocator, Usage, measure_memory};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const MODES: [fn() -> Options; 2] = [Options::default, Options::lenient];

/// The number of texts that are tried at full size.
const LARGE_TEXTS: usize = 9;

/// Texts that consist of one repeated unit, between a start and an end.
const HOSTILE: [(&str, &str, &str); 36] = [
    ("", "{}", ""),
    ("", "{} ", ""),
    ("", "{}\n", ""),
    ("x ", "{\"a\":1}", ""),
    ("", "[1]\n", ""),
    ("[", "{},", "{}]"),
    ("[", "[],", "1]"),
    ("[", "1,", "1]"),
    ("[", "1 ", "]"),
    ("[", "{\"\":1},", "{}]"),
    ("[", "{a:1},", "{}]"),
    ("[", "'',", "1]"),
    ("[", "\"\",", "1]"),
    ("{\"a\":[", "1,", ""),
    ("[", "null,", "x"),
    ("", "[", ""),
    ("", "[1,", ""),
    ("", "{\"a\":", ""),
    ("", "{\"a\":[", ""),
    ("", "\"a\":", ""),
    ("", "\"a\":\"a\",", ""),
    ("", "```\n{}\n```\n", ""),
    ("", "```json\n[1,2]\n", ""),
    ("", "\"\" ", ""),
    ("", "\"a\"\n", ""),
    ("", "1\n", ""),
    ("", "1,", ""),
    ("", ",", ""),
    ("[", ",", "]"),
    ("{\"a\":\"", "\\n", "\"}"),
    ("{\"a\":\"", "\\u0041", "\"}x"),
    ("{", "\\\"a\\\":1,", "}"),
    ("", "> {}\n", ""),
    ("", ">\n", ""),
    ("{", "a:1,", "}"),
    ("<think>", "{\"a\":1}", "</think>{}"),
];

fn repeated(start: &str, unit: &str, end: &str, bytes: usize) -> String {
    format!("{start}{}{end}", unit.repeat(bytes / unit.len()))
}

fn check(name: &str, text: &str, schema: Option<&Schema>, options: &Options) -> Usage {
    let (outcome, usage) = measure_memory(|| extract(text, schema, options));
    let limit = 8 * text.len() + 32 * 1024 * 1024;
    let start: String = text.chars().take(40).collect();
    assert!(
        usage.peak <= limit,
        "{name}, {:?}: {start}… of {} bytes takes {} bytes, more than {limit}",
        options.mode,
        text.len(),
        usage.peak
    );
    drop(outcome);
    usage
}

#[test]
fn hostile_text_takes_bounded_memory() {
    for (number, (start, unit, end)) in HOSTILE.into_iter().enumerate() {
        // The first ones run at full size, the others smaller, because a debug build takes seconds for each.
        let bytes = if number < LARGE_TEXTS { 4 * 1024 * 1024 - 64 } else { 1024 * 1024 };
        let text = repeated(start, unit, end, bytes);
        for options in MODES {
            check("no schema", &text, None, &options());
        }
    }
}

#[test]
fn hostile_text_with_schema_takes_bounded_memory() {
    let schemas = [
        ("object", json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})),
        ("list", json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}})),
        ("text", json!({"type": "string", "minLength": 2})),
        ("any", json!({"anyOf": [{"type": "array", "items": {"type": "object"}}, {"type": "integer"}]})),
    ];
    for (name, schema) in schemas {
        let schema = Schema::compile(&schema).unwrap();
        let _ = schema.violations(&json!([{}, 1, "x"]));
        for (start, unit, end) in HOSTILE {
            let text = repeated(start, unit, end, 512 * 1024);
            for options in MODES {
                check(name, &text, Some(&schema), &options());
            }
        }
    }
}

#[test]
fn repairs_below_long_key_take_bounded_memory() {
    let text = format!("{{\"{}\": {{{}}}}}", "k".repeat(1024 * 1024), "a:1,".repeat(5_000));
    for options in MODES {
        check("long key", &text, None, &options());
    }
}

#[test]
fn text_with_too_many_values_is_refused_as_a_whole() {
    for (start, unit, end) in [("", "{}", ""), ("[", "{},", "{}]"), ("", "{\"a\":1}\n", "")] {
        let text = repeated(start, unit, end, 4 * 1024 * 1024 - 64);
        for options in MODES {
            let Outcome::Invalid { candidate, violations } = extract(&text, None, &options()) else {
                panic!("{unit} was accepted");
            };
            assert_eq!(candidate.value, Value::Null);
            assert!(violations.lines()[0].contains("more values than fit"), "{:?}", violations.lines());
        }
    }
}

#[test]
fn usual_large_documents_are_extracted() {
    let record =
        |number: usize| json!({"id": number, "name": "a name of usual length", "tags": ["one", "two"]});
    let records: Value = (0..10_000).map(record).collect::<Vec<_>>().into();
    let text = format!("Here it is:\n```json\n{records}\n```");
    for options in MODES {
        for text in [&text, &records.to_string()] {
            let outcome = extract(text, None, &options());
            assert!(outcome.valid() == Some(&records), "{:.300}", format!("{outcome:?}"));
        }
    }
}

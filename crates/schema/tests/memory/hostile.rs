//! Short schemas that compile to much.

use serde_json::{Map, Value, json};
use slipform_schema::{COMPILED_BYTES_MAX, Error, Schema};

use crate::compile_measured;

/// What compiling may use besides the compiled schema: the caller's text and copies that are dropped again.
const WORKING_BYTES_MAX: usize = 24 * 1024 * 1024;

const LATEST: &str = "https://json-schema.org/draft/2020-12/schema";

fn named(count: usize, each: impl Fn(usize) -> Value) -> Value {
    (0..count).map(|number| (format!("p{number}"), each(number))).collect::<Map<_, _>>().into()
}

fn listed(count: usize, each: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(each).collect()
}

/// Compiles a schema, and checks that it is refused, or takes no more than estimated and allowed.
fn compile(name: &str, source: &Value) -> Result<Schema, Error> {
    let (compiled, usage) = compile_measured(source);
    let limit = COMPILED_BYTES_MAX as usize + WORKING_BYTES_MAX;
    assert!(usage.peak <= limit, "{name}: compiling takes {} bytes", usage.peak);
    if let Ok(schema) = &compiled {
        let estimate = schema.memory_bytes();
        assert!(usage.kept as u64 <= estimate, "{name}: takes {} bytes, estimated {estimate}", usage.kept);
    }
    compiled
}

fn assert_refused(name: &str, source: &Value, path: &str, what: &str) {
    let error = compile(name, source).expect_err(name);
    let Error::TooMuchMemory { path: found, .. } = &error else { panic!("{name}: {error}") };
    assert!(found.starts_with(path), "{name}: {error}");
    assert!(error.to_string().contains(what), "{name}: {error}");
    assert!(error.to_string().len() < 600, "{name}: the message has {} bytes", error.to_string().len());
}

#[test]
fn many_large_patterns_are_refused_with_path_of_largest() {
    let letters = |number: usize| format!("\\p{{L}}{{40}}{number}");
    let properties = named(1_000, |number| json!({"type": "string", "pattern": letters(number)}));
    let in_definitions = json!({
        "properties": named(1_000, |number| json!({"$ref": format!("#/$defs/p{number}")})),
        "$defs": properties,
    });
    let by_name: Map<String, Value> = (0..1_000).map(|number| (letters(number), json!({}))).collect();
    let union = listed(1_000, |number| json!({"pattern": letters(number)}));
    for (name, source, path) in [
        ("properties", json!({"properties": properties}), "$.properties.p"),
        ("definitions", in_definitions, "$.$defs.p"),
        ("patternProperties", json!({"patternProperties": by_name}), "$.patternProperties["),
        ("anyOf", json!({"anyOf": union}), "$.anyOf["),
    ] {
        assert_refused(name, &source, path, "the patterns of the schema, of which this is the largest,");
    }
}

#[test]
fn single_large_pattern_is_refused_with_path() {
    for pattern in [
        r"^\p{L}{400}$",
        r"^(\p{L}{40}){20}$",
        r"^(?:(?:(?:(?:a{90}){90}){90}){90}){90}$",
        r"^\w{0,100}(?!x)\w{0,900}$",
        r"(?<=a)\p{L}{1000}(b)\1",
        r"(?i)\p{Lu}{1000}",
        r"[^\p{L}]{1000}",
    ] {
        assert_refused(
            pattern,
            &json!({"properties": {"x": {"pattern": pattern}}}),
            "$.properties.x.pattern",
            "would take",
        );
    }
}

#[test]
fn equal_patterns_count_once() {
    let source = json!({"properties": named(1_000, |_| json!({"type": "string", "pattern": "\\p{L}{40}"}))});
    assert!(compile("equal", &source).unwrap().is_valid(&json!({"p1": "é".repeat(40)})));
}

/// Returns a distinct pattern for each number.
type Pattern = fn(usize) -> String;

#[test]
fn many_usual_patterns_are_accepted_within_estimate() {
    let cases: [(&str, Pattern); 5] = [
        ("short", |number| format!("^[a-z]+-{number}x?$")),
        ("names", |number| format!("^[a-zA-Z0-9_-]{{1,63}}{number}$")),
        ("repeated", |number| format!("^[a-z]{{1,{}}}$", 100 + number)),
        ("any", |number| format!("^.{{1,40}}{number}$")),
        ("look-ahead", |number| format!("^(?!x{number})[a-z]{{1,40}}$")),
    ];
    for (name, pattern) in cases {
        let source = json!({"properties": named(150, |number| json!({"pattern": pattern(number)}))});
        compile(name, &source).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn long_names_above_many_parts_are_refused() {
    let long = "k".repeat(500_000);
    let inner = named(4_000, |_| json!({"type": "string"}));
    let anchors = named(4_000, |number| json!({"$anchor": format!("a{number}")}));
    for (name, source) in [
        ("properties", json!({"properties": {&long: {"properties": inner}}})),
        ("anchors", json!({"$schema": LATEST, "properties": {&long: {"properties": anchors}}})),
        ("unknown keyword", json!({&long: named(4_000, |_| json!([]))})),
    ] {
        assert_refused(name, &source, "$", "shorten long property names");
    }
}

#[test]
fn long_identifier_with_many_references_is_refused() {
    let source = json!({
        "$schema": LATEST,
        "$id": format!("https://example.com/{}", "i".repeat(500_000)),
        "properties": named(4_000, |_| json!({"$ref": "#/$defs/a"})),
        "$defs": {"a": {"type": "string"}},
    });
    assert_refused("identifier", &source, "$", "shorten the $id");
}

#[test]
fn huge_lists_of_values_are_refused_with_path() {
    let numbers = listed(400_000, |number| json!(number));
    let texts = listed(350_000, |number| json!(number.to_string()));
    let objects = listed(200_000, |_| json!({}));
    for (name, source, path) in [
        ("numbers", json!({"items": {"enum": numbers}}), "$.items.enum"),
        ("texts", json!({"items": {"enum": texts}}), "$.items.enum"),
        ("objects", json!({"items": {"enum": objects}}), "$.items.enum"),
        ("constant", json!({"items": {"const": listed(200_000, |number| json!([number]))}}), "$.items.const"),
    ] {
        assert_refused(name, &source, path, "list fewer values");
    }
}

#[test]
fn schemas_with_many_parts_stay_within_estimate() {
    let leaf = json!({"minLength": 3, "maxLength": 9, "format": "date"});
    let unevaluated =
        listed(300, |_| json!({"unevaluatedProperties": false, "properties": named(100, |_| json!({}))}));
    let deep = (0..40).fold(json!({"type": "string"}), |inner, _| {
        json!({"unevaluatedProperties": false, "allOf": [inner], "properties": named(300, |_| json!({}))})
    });
    for (name, source) in [
        ("properties", json!({"properties": named(30_000, |_| json!({"type": "string"}))})),
        ("empty", json!({"properties": named(30_000, |_| json!({}))})),
        ("nested", json!({"properties": named(12_000, |_| json!({"properties": {"a": {"items": leaf}}}))})),
        ("required", json!({"required": listed(350_000, |number| json!(number.to_string()))})),
        ("anyOf", json!({"anyOf": listed(20_000, |_| json!({"type": "string"}))})),
        ("allOf", json!({"allOf": listed(20_000, |number| json!({"minimum": number}))})),
        (
            "references",
            json!({"properties": named(20_000, |_| json!({"$ref": "#/$defs/a"})), "$defs": {"a": {"items": {}}}}),
        ),
        (
            "chain",
            json!({"$ref": "#/$defs/p0", "$defs": named(20_000, |number| json!({"items": {"$ref": format!("#/$defs/p{}", (number + 1) % 20_000)}}))}),
        ),
        ("unknown keyword", json!({"x": listed(300_000, |number| json!(number))})),
        ("unevaluated", json!({"$schema": LATEST, "allOf": unevaluated})),
        ("deep unevaluated", json!({"$schema": LATEST, "allOf": [deep]})),
        ("dependencies", json!({"dependencies": named(20_000, |_| json!(["a", "b"]))})),
        ("types", json!({"anyOf": listed(20_000, |_| json!({"type": ["string", "number", "null"]}))})),
    ] {
        // Refused or accepted: what matters is the memory, which `compile` checks.
        let _ = compile(name, &source);
    }
}

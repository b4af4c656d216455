//! Skeletons for prompts, and narrowed and wrapped schemas.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_schema::{Dialect, Schema, compact, lower, narrow, needs_wrapping, restore, wrap_root};

fn check(schema: Value, expected: Expect) {
    expected.assert_eq(&compact(&schema));
}

#[test]
fn review_schema_is_rendered_as_skeleton() {
    check(
        json!({
            "type": "object",
            "properties": {
                "summary": {"type": "string", "description": "Brief summary of the PR", "minLength": 50},
                "approval": {"enum": ["approve", "request_changes", "comment"], "description": "Review\n decision"},
                "comments": {
                    "type": "array",
                    "description": "What to change",
                    "minItems": 1,
                    "maxItems": 5,
                    "items": {
                        "type": "object",
                        "properties": {
                            "file": {"type": "string", "pattern": "^a+$"},
                            "line": {"type": "integer", "minimum": 0},
                            "due": {"type": ["string", "null"], "format": "date"},
                        },
                        "required": ["file", "line"],
                    },
                },
                "metrics": {"type": "object", "properties": {"score": {"type": "number", "minimum": 0, "maximum": 10}}},
                "counts": {"type": "object", "additionalProperties": {"type": "number"}},
                "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
                "version": {"const": 2},
                "extra": {},
                "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
            },
            "required": ["summary", "approval", "comments", "unlisted"],
        }),
        expect![[r#"
            {
              "summary": string (at least 50 characters), // Brief summary of the PR
              "approval": "approve" | "request_changes" | "comment", // Review decision
              "comments": [ // What to change
                {
                  "file": string (matching ^a+$),
                  "line": integer (at least 0),
                  "due"?: string (date) | null
                }
              ] (1 to 5 items),
              "metrics"?: { "score"?: number (0 to 10) },
              "counts"?: { [name]: number },
              "pair"?: [string, integer],
              "version"?: 2,
              "extra"?: any,
              "tags"?: [string] (all different),
              "unlisted": any
            }"#]],
    );
}

#[test]
fn repeated_definitions_get_names() {
    check(
        json!({
            "type": "object",
            "properties": {
                "root": {"$ref": "#/$defs/node"},
                "home": {"$ref": "#/$defs/address"},
                "size": {"$ref": "#/$defs/small"},
                "weight": {"$ref": "#/$defs/small"},
                "shape": {"oneOf": [{"$ref": "#/$defs/node"}, {"type": "null"}, {"type": "string"}]},
            },
            "required": ["root"],
            "$defs": {
                "node": {"type": "object", "properties": {
                    "value": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                }},
                "address": {"type": "object", "properties": {"street": {"type": "string"}}},
                "small": {"type": "integer", "exclusiveMinimum": 0},
            },
        }),
        expect![[r#"
            node = {
              "value"?: string,
              "children"?: [node]
            }

            {
              "root": node,
              "home"?: { "street"?: string },
              "size"?: integer (more than 0),
              "weight"?: integer (more than 0),
              "shape"?: node | string | null
            }"#]],
    );
    check(
        json!({"type": "object", "properties": {"inner": {"$ref": "#"}, "all": {"allOf": [{"$ref": "#"}, {"required": ["inner"]}]}}}),
        expect![[r#"
            Root = {
              "inner"?: Root,
              "all"?: Root
            }"#]],
    );
}

#[test]
fn hostile_schemas_are_processed_in_bounded_time() {
    let mut definitions = serde_json::Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(
            format!("d{level}"),
            json!({
                "type": "object",
                "properties": {
                    "a": {"allOf": [next, {"minProperties": 1}]},
                    "b": {"allOf": [next, {"minProperties": 2}]},
                },
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            }),
        );
    }
    definitions.insert("d40".to_owned(), json!({"type": "string"}));
    let fan_out =
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
    let cycle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}}});
    let mut deep = json!({"type": "string"});
    for _ in 0..120 {
        deep = json!({"items": deep});
    }
    let mut unions = json!({"type": "string"});
    for _ in 0..30 {
        unions = json!({"type": "object", "properties": {"a": unions}, "anyOf": [{"required": ["a"]}, {"minProperties": 1}]});
    }
    let chain: serde_json::Map<String, Value> = (0..5_000)
        .map(|level| {
            let next = json!({"$ref": format!("#/definitions/{}", level + 1)});
            (level.to_string(), json!({"properties": {"a": {"allOf": [next, {"type": "object"}]}}}))
        })
        .collect();
    let chain = json!({"$ref": "#/definitions/0", "definitions": chain});
    for schema in [fan_out, cycle, deep, unions, chain] {
        let text = compact(&schema);
        assert!(text.len() < 100_000, "{} characters", text.len());
        narrow(&schema, 1_000);
        wrap_root(&schema);
        needs_wrapping(&schema);
        for dialect in [Dialect::OpenAi, Dialect::LlamaCpp] {
            lower(&schema, dialect);
        }
        let mut value = json!({"a": {"a": {"a": {"b": {"a": null, "b": {"a": {}}}}}}});
        restore(&schema, &mut value);
    }
}

#[test]
fn narrow_bounds_unbounded_strings_and_arrays() {
    let schema = json!({
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "long": {"type": "string", "minLength": 500},
            "date": {"type": "string", "format": "date"},
            "list": {"type": "array", "items": {"type": "string"}},
            "not": {"not": {"type": "string"}},
            "same": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["text"],
    });
    expect![[r#"{"type":"object","properties":{"text":{"type":"string","maxLength":400},"long":{"type":"string","minLength":500,"maxLength":500},"date":{"type":"string","format":"date"},"list":{"type":"array","items":{"type":"string","maxLength":400},"maxItems":8},"not":{"not":{"type":"string"}},"same":{"oneOf":[{"type":"string"},{"type":"integer"}]}},"required":["text"],"additionalProperties":false}"#]].assert_eq(&narrow(&schema, 100_000).to_string());
    expect![[r#"{"type":"object","properties":{"text":{"type":"string","maxLength":60},"long":{"type":"string","minLength":500,"maxLength":500},"date":{"type":"string","format":"date"},"list":{"type":"array","items":{"type":"string","maxLength":60},"maxItems":1},"not":{"not":{"type":"string"}},"same":{"oneOf":[{"type":"string"},{"type":"integer"}]}},"required":["text"],"additionalProperties":false}"#]].assert_eq(&narrow(&schema, 100).to_string());
    let open = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]});
    assert_eq!(narrow(&open, 1_000), open);
}

#[test]
fn corpus_skeletons_are_shorter_than_schemas() {
    let Some(rows) = crate::support::rows() else { return };
    let (mut shorter, mut before, mut after) = (0, 0, 0);
    for row in &rows {
        let pretty = format!("{:#}", row["schema"]);
        let skeleton = compact(&row["schema"]);
        before += pretty.len();
        after += skeleton.len();
        if skeleton.len() < pretty.len() {
            shorter += 1;
        } else {
            println!("{}: {pretty}\n{skeleton}", row["id"]);
        }
    }
    println!("{shorter} of {} are shorter; {before} bytes became {after}", rows.len());
    assert!(shorter * 100 >= rows.len() * 99);
}

#[test]
fn narrowed_schema_accepts_only_contract_values() {
    let Some(rows) = crate::support::rows() else { return };
    let (mut accepted, mut valid) = (0, 0);
    for row in &rows {
        let Ok(contract) = Schema::compile(&row["schema"]) else { continue };
        let narrowed = Schema::compile(&narrow(&row["schema"], 4_000)).unwrap();
        for test in row["tests"].as_array().unwrap() {
            let is_accepted = narrowed.is_valid(&test["data"]);
            assert!(!is_accepted || contract.is_valid(&test["data"]), "{}", row["id"]);
            valid += usize::from(contract.is_valid(&test["data"]));
            accepted += usize::from(is_accepted);
        }
    }
    println!("{accepted} of {valid} valid instances are still accepted");
    assert!(accepted > 0);
}

#[test]
fn wrapped_schema_accepts_the_same_values() {
    let Some(rows) = crate::support::rows() else { return };
    for row in &rows {
        let Ok(contract) = Schema::compile(&row["schema"]) else { continue };
        let wrapped = wrap_root(&row["schema"]);
        let compiled = Schema::compile(&wrapped).unwrap_or_else(|error| panic!("{}: {error}", row["id"]));
        for test in row["tests"].as_array().unwrap() {
            let result = json!({"result": test["data"]});
            assert_eq!(compiled.is_valid(&result), contract.is_valid(&test["data"]), "{}", row["id"]);
        }
    }
}

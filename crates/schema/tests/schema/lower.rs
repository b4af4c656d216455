//! The lowered schema and the lost keywords for each dialect.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_schema::{
    Dialect, Schema, Segment, lower, needs_wrapping, restore, subschema_document, wrap_root,
};

fn check(schema: &Value, dialect: Dialect, expected: Expect) {
    let lowered = lower(schema, dialect);
    let nulls = if lowered.needs_restore { ", nulls" } else { "" };
    let strict = if lowered.strict { "strict" } else { "not strict" };
    expected.assert_eq(&format!("{strict}{nulls}, lost {:?}\n{}", lowered.lost, lowered.schema));
}

fn review() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.com/review",
        "title": "Review",
        "type": "object",
        "properties": {
            "summary": {"type": "string", "minLength": 10, "description": "One sentence"},
            "score": {"type": "number", "minimum": 0, "maximum": 10, "default": 5},
            "line": {"type": "integer", "exclusiveMinimum": 0},
            "verdict": {"enum": ["approve", "reject"]},
            "code": {"type": "string", "pattern": "^[A-Z]+$", "maxLength": 5},
            "site": {"type": "string", "format": "uri"},
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 5000},
            "author": {"$ref": "#/definitions/person"},
            "kind": {"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]},
        },
        "required": ["summary", "score", "verdict"],
        "not": {"required": ["nothing"]},
        "definitions": {"person": {"properties": {"name": {"type": "string"}}, "required": ["name"]}},
    })
}

#[test]
fn review_schema_is_lowered_for_every_dialect() {
    check(
        &review(),
        Dialect::OpenAi,
        expect![[r##"
        strict, nulls, lost ["format", "maxLength", "minLength", "not", "oneOf", "uniqueItems"]
        {"type":"object","properties":{"summary":{"type":"string","description":"One sentence"},"score":{"type":"number","minimum":0,"maximum":10},"line":{"type":["integer","null"],"minimum":1},"verdict":{"type":"string","enum":["approve","reject"]},"code":{"type":["string","null"],"pattern":"^[A-Z]+$"},"site":{"type":["string","null"]},"tags":{"type":["array","null"],"items":{"type":"string"},"maxItems":5000},"author":{"anyOf":[{"$ref":"#/definitions/person"},{"type":"null"}]},"kind":{"type":["string","null"]}},"required":["summary","score","line","verdict","code","site","tags","author","kind"],"additionalProperties":false,"definitions":{"person":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}}}"##]],
    );
    check(
        &review(),
        Dialect::Anthropic,
        expect![[r##"
        strict, lost ["exclusiveMinimum", "maxItems", "maxLength", "maximum", "minLength", "minimum", "not", "oneOf", "uniqueItems"]
        {"type":"object","properties":{"summary":{"type":"string","description":"One sentence"},"score":{"type":"number"},"line":{"type":"integer"},"verdict":{"type":"string","enum":["approve","reject"]},"code":{"type":"string","pattern":"^[A-Z]+$"},"site":{"type":"string","format":"uri"},"tags":{"type":"array","items":{"type":"string"}},"author":{"$ref":"#/definitions/person"},"kind":{"type":"string"}},"required":["summary","score","verdict"],"additionalProperties":false,"definitions":{"person":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}}}"##]],
    );
    check(
        &review(),
        Dialect::LlamaCpp,
        expect![[r##"
        strict, lost ["format", "maxItems", "maxLength", "maximum", "minimum", "not", "oneOf", "uniqueItems"]
        {"type":"object","title":"Review","properties":{"summary":{"type":"string","description":"One sentence","minLength":10},"score":{"type":"number","default":5},"line":{"type":"integer","minimum":1},"verdict":{"type":"string","enum":["approve","reject"]},"code":{"type":"string","pattern":"^[A-Z]+$"},"site":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}},"author":{"$ref":"#/definitions/person"},"kind":{"oneOf":[{"type":"string"},{"type":"string","maxLength":3}]}},"required":["summary","score","verdict"],"definitions":{"person":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}"##]],
    );
    check(
        &review(),
        Dialect::Vllm,
        expect![[r##"
        strict, lost ["maxLength", "not", "oneOf", "uniqueItems"]
        {"type":"object","title":"Review","properties":{"summary":{"type":"string","description":"One sentence","minLength":10},"score":{"type":"number","default":5,"minimum":0,"maximum":10},"line":{"type":"integer","minimum":1},"verdict":{"type":"string","enum":["approve","reject"]},"code":{"type":"string","pattern":"^[A-Z]+$"},"site":{"type":"string","format":"uri"},"tags":{"type":"array","items":{"type":"string"},"maxItems":5000},"author":{"$ref":"#/definitions/person"},"kind":{"oneOf":[{"type":"string"},{"type":"string","maxLength":3}]}},"required":["summary","score","verdict"],"definitions":{"person":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}"##]],
    );
    assert_eq!(lower(&review(), Dialect::LmStudio), lower(&review(), Dialect::LlamaCpp));
    assert_eq!(lower(&review(), Dialect::Ollama), lower(&review(), Dialect::LlamaCpp));
    let generic = lower(&review(), Dialect::Generic);
    assert_eq!((generic.schema, generic.strict, generic.lost), (review(), true, Vec::new()));
}

#[test]
fn unenforceable_schema_is_sent_unchanged() {
    for schema in [
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": {"any": {}}}),
        json!({"type": "object", "properties": {"any": true}}),
        json!({"type": "object", "properties": {"pair": {"type": "array", "items": [{"type": "string"}]}}}),
        json!({"type": "object", "properties": {"list": {"type": "array"}}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}]}),
    ] {
        for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
            let lowered = lower(&schema, dialect);
            // A union of one branch becomes that branch.
            if schema.get("anyOf").is_none() {
                assert!(!lowered.strict && lowered.lost.contains(&"type".to_owned()), "{schema}");
                assert_eq!(lowered.schema, schema);
            }
        }
    }
    let recursive = json!({
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["children"],
    });
    check(
        &recursive,
        Dialect::OpenAi,
        expect![[r##"
        strict, lost []
        {"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}},"required":["children"],"additionalProperties":false}"##]],
    );
    check(
        &recursive,
        Dialect::Anthropic,
        expect![[r##"
        not strict, lost ["$ref", "items", "properties", "required", "type"]
        {"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}},"required":["children"]}"##]],
    );
}

#[test]
fn schema_above_openai_limits_is_not_strict() {
    let mut nested = json!({"type": "string"});
    for _ in 0..11 {
        nested = json!({"type": "object", "properties": {"a": nested}, "required": ["a"]});
    }
    assert!(!lower(&nested, Dialect::OpenAi).strict);
    assert!(lower(&nested["properties"]["a"], Dialect::OpenAi).strict);
    let values: Vec<String> = (0..1001).map(|number| number.to_string()).collect();
    let listed = json!({"type": "object", "properties": {"a": {"enum": values}}});
    assert!(!lower(&listed, Dialect::OpenAi).strict);
}

#[test]
fn all_of_is_joined_into_one_schema() {
    let schema = json!({
        "allOf": [
            {"$ref": "#/$defs/base"},
            {"properties": {"age": {"type": "integer", "minimum": 18}}, "required": ["age"]},
        ],
        "$defs": {"base": {"type": "object", "properties": {"age": {"type": "number", "maximum": 99}}}},
    });
    check(
        &schema,
        Dialect::OpenAi,
        expect![[r#"
        strict, lost []
        {"type":"object","properties":{"age":{"type":"integer","minimum":18,"maximum":99}},"required":["age"],"additionalProperties":false}"#]],
    );
    let clash = json!({
        "type": "object",
        "properties": {"code": {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "z$"}]}},
        "required": ["code"],
    });
    check(
        &clash,
        Dialect::OpenAi,
        expect![[r#"
        strict, lost ["allOf"]
        {"type":"object","properties":{"code":{"type":"string","pattern":"^a"}},"required":["code"],"additionalProperties":false}"#]],
    );
}

#[test]
fn keywords_beside_union_are_joined_into_branches() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}, {"type": "string"}],
    });
    check(
        &schema,
        Dialect::Vllm,
        expect![[r#"
        strict, lost []
        {"anyOf":[{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"]},{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["b"]}]}"#]],
    );
}

#[test]
fn property_names_and_values_are_not_read_as_keywords() {
    let schema = json!({
        "type": "object",
        "properties": {"not": {"type": "string"}, "uniqueItems": {"const": {"pattern": "(?=x)"}}},
        "required": ["not"],
        "additionalProperties": false,
        "default": {"if": 1},
    });
    assert_eq!(lower(&schema, Dialect::LlamaCpp).lost, Vec::<String>::new());
    let ignored = json!({
        "type": "object",
        "properties": {"a": {"type": "string", "minimum": 3, "format": "int32"}},
        "dependentRequired": {"a": ["b"]},
        "additionalProperties": false,
    });
    assert_eq!(lower(&ignored, Dialect::LlamaCpp).lost, Vec::<String>::new());
}

#[test]
fn lowering_respects_the_draft() {
    let old = json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": true}},
        "required": ["n"],
        "additionalProperties": false,
    });
    check(
        &old,
        Dialect::LlamaCpp,
        expect![[r#"
        strict, lost []
        {"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"],"additionalProperties":false}"#]],
    );
    let new = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false}},
        "unevaluatedProperties": false,
    });
    check(
        &new,
        Dialect::LlamaCpp,
        expect![[r#"
        strict, lost []
        {"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"minItems":2,"maxItems":2}},"additionalProperties":false}"#]],
    );
    check(
        &new,
        Dialect::Vllm,
        expect![[r#"
        strict, lost []
        {"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}},"additionalProperties":false}"#]],
    );
}

#[test]
fn restore_removes_nulls_of_absent_properties() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": ["string", "null"]},
            "c": {"type": "string"},
            "list": {"type": "array", "items": {"anyOf": [
                {"type": "object", "properties": {"kind": {"const": "x"}, "n": {"type": "integer"}}, "required": ["kind"]},
                {"type": "object", "properties": {"kind": {"const": "y"}, "n": {"type": ["integer", "null"]}}, "required": ["kind"]},
            ]}},
        },
        "required": ["a"],
    });
    let mut answer = json!({
        "a": null, "b": null, "c": null,
        "list": [{"kind": "x", "n": null}, {"kind": "y", "n": null}],
    });
    assert_eq!(restore(&schema, &mut answer), ["/c", "/list/0/n"]);
    assert_eq!(answer, json!({"a": null, "b": null, "list": [{"kind": "x"}, {"kind": "y", "n": null}]}));
}

#[test]
fn wrapped_root_keeps_references() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "array",
        "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/leaf"}, {"$ref": "#/items"}]},
        "$defs": {"leaf": {"type": "string"}},
    });
    assert!(needs_wrapping(&schema));
    let wrapped = wrap_root(&schema);
    expect![[r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"result":{"type":"array","items":{"anyOf":[{"$ref":"#/properties/result"},{"$ref":"#/$defs/leaf"},{"$ref":"#/properties/result/items"}]}}},"required":["result"],"additionalProperties":false,"$defs":{"leaf":{"type":"string"}}}"##]].assert_eq(&wrapped.to_string());
    assert!(!needs_wrapping(&wrapped));
    let nested = json!({"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "string"}]}});
    let compiled = Schema::compile(&wrap_root(&nested)).unwrap();
    assert!(compiled.is_valid(&json!({"result": [["a"], "b"]})));
    assert!(!compiled.is_valid(&json!({"result": [[1]]})));
    assert!(needs_wrapping(&json!({})) && needs_wrapping(&json!(true)));
    assert!(!needs_wrapping(&json!({"anyOf": [{"type": "object"}, {"properties": {"a": true}}]})));
}

#[test]
fn subschema_document_keeps_definitions() {
    let schema = json!({
        "type": "object",
        "properties": {
            "people": {"type": "array", "items": {"$ref": "#/definitions/person"}},
            "either": {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}]},
        },
        "definitions": {"person": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "friend": {"$ref": "#/definitions/person"}},
            "required": ["name"],
        }},
    });
    let key = |name: &str| Segment::Key(name.to_owned());
    let person = subschema_document(&schema, &[key("people"), Segment::Index(3)]).unwrap();
    let compiled = Schema::compile(&person).unwrap();
    assert!(compiled.is_valid(&json!({"name": "a", "friend": {"name": "b"}})));
    assert!(!compiled.is_valid(&json!({"name": "a", "friend": {}})));
    let name = subschema_document(&schema, &[key("people"), Segment::Index(0), key("name")]).unwrap();
    assert_eq!(name, json!({"type": "string"}));
    assert_eq!(subschema_document(&schema, &[key("either"), key("a")]), None);
    assert_eq!(subschema_document(&schema, &[key("unknown")]), None);
    assert_eq!(subschema_document(&schema, &[]), Some(schema.clone()));
}

#[test]
fn dialect_name_round_trips() {
    for dialect in Dialect::ALL {
        assert_eq!(dialect.to_string().parse(), Ok(dialect));
        assert_eq!(serde_json::to_value(dialect).unwrap(), json!(dialect.name()));
    }
    assert!("gpt".parse::<Dialect>().unwrap_err().contains("llama.cpp"));
}

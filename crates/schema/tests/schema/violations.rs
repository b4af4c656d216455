//! Violations: one sentence per location, in document order, that a model can act on.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_schema::{Cache, Schema, lint};

fn check(schema: Value, value: Value, expected: Expect) {
    let violations = Schema::compile(&schema).unwrap().violations(&value);
    expected.assert_eq(&violations.lines().join("\n"));
}

#[test]
fn scalar_violations_name_allowed_values() {
    let schema = json!({
        "type": "object",
        "properties": {
            "severity": {"enum": ["low", "medium", "high"]},
            "kind": {"const": "bug"},
            "count": {"type": "integer", "minimum": 1},
            "ratio": {"type": "number", "exclusiveMaximum": 1},
            "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
            "mail": {"type": "string", "format": "email"},
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 2},
        },
        "required": ["severity", "summary"],
        "additionalProperties": false,
    });
    let value = json!({
        "mail": "nobody", "severity": "critical", "kind": "feature", "count": 0, "ratio": 1, "name": "X",
        "tags": ["a", "b", "a"], "extra": {"x": 1},
    });
    check(
        schema,
        value,
        expect![[r#"
            $.mail: 'nobody' is not a valid email, such as ada@example.com
            $.severity: 'critical' is not one of ['low', 'medium', 'high']
            $.kind: must be 'bug', not 'feature'
            $.count: 0 is less than the minimum of 1
            $.ratio: 1 is not less than 1
            $.name: 'X' is too short, at least 2 characters are needed
            $.name: 'X' does not match the pattern '^[a-z]+$'
            $.tags: has 3 items, at most 2 allowed
            $.tags: items must be unique, but [0] and [2] are both 'a'
            $.extra: unexpected property, remove it; allowed are ['severity', 'kind', 'count', 'ratio', 'name', 'mail', 'tags']
            $.summary: required property is missing"#]],
    );
}

#[test]
fn type_violations_name_expected_and_found_type() {
    check(json!({"type": "string"}), json!(42), expect!["$: must be a string, not an integer (42)"]);
    check(
        json!({"type": ["string", "null"]}),
        json!([1]),
        expect!["$: must be null or a string, not an array"],
    );
    check(
        json!({"items": {"properties": {"odd key": {"type": "object"}}}}),
        json!([{}, {"odd key": true}]),
        expect!["$[1]['odd key']: must be an object, not a boolean (true)"],
    );
}

#[test]
fn union_violations_explain_closest_branch() {
    let shapes = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]},
        {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
    ]});
    check(
        shapes.clone(),
        json!({"kind": "square", "side": "3"}),
        expect!["$.side: must be a number, not a string ('3') (closest of 2 alternatives: number 2)"],
    );
    check(
        shapes,
        json!({"kind": "circle"}),
        expect!["$.radius: required property is missing (closest of 2 alternatives: number 1)"],
    );
    check(
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!(3),
        expect!["$: must be a string or null, not an integer (3)"],
    );
    check(
        json!({"anyOf": [{"const": "a"}, {"enum": ["b", "c"]}]}),
        json!("d"),
        expect!["$: 'd' is not one of ['a', 'b', 'c']"],
    );
    check(
        json!({"oneOf": [{"type": "integer"}, {"minimum": 2}]}),
        json!(3),
        expect!["$: matches the oneOf alternatives 1 and 2; exactly one is allowed"],
    );
}

#[test]
fn union_with_unknown_discriminator_lists_allowed_values() {
    let by_kind = |kind: &str, field: &str| json!({"type": "object", "properties": {"kind": {"const": kind}, field: {"type": "integer"}}, "required": ["kind", field]});
    let media = json!({"oneOf": [by_kind("book", "pages"), by_kind("film", "minutes")]});
    check(media, json!({"kind": "song"}), expect!["$.kind: 'song' is not one of ['book', 'film']"]);
    let either = json!({"anyOf": [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
    ]});
    check(
        either,
        json!({"a": "x"}),
        expect!["$.a: must be an integer, not a string ('x') (closest of 2 alternatives: number 1)"],
    );
}

#[test]
fn unusual_keys_are_quoted_in_paths() {
    check(
        json!({"additionalProperties": {"type": "string"}}),
        json!({"": 1, "0": 2, "a.b": 3, "line\nbreak": 4}),
        expect![[r#"
            $['']: must be a string, not an integer (1)
            $['0']: must be a string, not an integer (2)
            $['a.b']: must be a string, not an integer (3)
            $['line\nbreak']: must be a string, not an integer (4)"#]],
    );
    check(
        json!({"additionalProperties": false}),
        json!({"a": 1}),
        expect!["$.a: unexpected property, remove it"],
    );
    check(
        json!({"maxLength": 3}),
        json!("tab\there"),
        expect![[r#"$: 'tab\there' is too long with 8 characters, at most 3 allowed"#]],
    );
}

#[test]
fn contains_violations_say_too_many_or_too_few() {
    let draft = "https://json-schema.org/draft/2020-12/schema";
    check(
        json!({"$schema": draft, "contains": {"type": "integer"}, "maxContains": 1}),
        json!([1, 2]),
        expect!["$: too many of the items match 'contains'"],
    );
    check(
        json!({"$schema": draft, "contains": {"type": "integer"}, "minContains": 2}),
        json!([1]),
        expect!["$: too few of the items match 'contains'"],
    );
}

#[test]
fn newer_formats_are_asserted_in_draft_7() {
    check(
        json!({"format": "uuid"}),
        json!("nope"),
        expect!["$: 'nope' is not a valid uuid, such as 3b241101-e2bb-4255-8caf-4136c566a962"],
    );
    check(
        json!({"format": "date-time"}),
        json!("2026-01-31T09:30:00"),
        expect!["$: '2026-01-31T09:30:00' is not a valid date-time, such as 2026-01-31T09:30:00Z"],
    );
}

#[test]
fn counting_keyword_is_hidden_in_messages() {
    check(
        json!({"properties": {"next": {"$ref": "#"}, "kind": {"not": {"enum": ["root"]}}}}),
        json!({"next": {"kind": "root"}}),
        expect![[r#"$.next.kind: 'root' is excluded: it must not match {"enum":["root"]}"#]],
    );
}

#[test]
fn violations_are_capped_with_a_count() {
    let schema = Schema::compile(&json!({"items": {"type": "string"}})).unwrap();
    let value: Value = (0..50).collect::<Vec<_>>().into();
    let violations = schema.violations(&value);
    assert_eq!((violations.list.len(), violations.more, violations.total()), (20, 30, 50));
    assert_eq!(violations.lines().last().unwrap(), "$: … and 30 more violations");
    assert_eq!(violations, schema.violations(&value));
}

#[test]
fn violation_has_schema_path_and_value() {
    let schema = Schema::compile(&json!({"properties": {"a": {"type": "string"}}})).unwrap();
    let violation = &schema.violations(&json!({"a": 1})).list[0];
    assert_eq!(violation.schema_path, "/properties/a/type");
    assert_eq!(violation.value, json!(1));
}

#[test]
fn formats_are_asserted_in_every_draft() {
    for draft in ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"] {
        let schema = Schema::compile(&json!({"$schema": draft, "format": "date"})).unwrap();
        assert!(schema.is_valid(&json!("2026-01-31")));
        assert!(!schema.is_valid(&json!("2026-02-31")));
    }
}

#[test]
fn cached_schema_is_compiled_once() {
    let cache = Cache::default();
    let first = cache.compile(&json!({"type": "string"})).unwrap();
    let second = cache.compile(&json!({"type": "string"})).unwrap();
    assert!(std::ptr::eq(first.source(), second.source()));
    assert_eq!(first.hash().len(), "sha256:".len() + 64);
    assert!(cache.compile(&json!({"type": 3})).is_err());
    let known = cache.compile_known(first.hash(), &json!({"type": "string"})).unwrap();
    assert!(std::ptr::eq(first.source(), known.source()));
    let other = cache.compile_known(first.hash(), &json!({"type": "integer"})).unwrap();
    assert!(!other.is_valid(&json!("text")) && other.is_valid(&json!(1)));
}

fn check_lint(schema: Value, expected: Expect) {
    expected.assert_eq(&lint(&schema).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
}

#[test]
fn lint_finds_likely_mistakes() {
    check_lint(
        json!({"type": "object", "require": ["a"], "additionalproperties": false, "properties": {"a": {"properties": {}}}}),
        expect![[r#"
            $.require: unknown keyword 'require' is ignored; did you mean 'required'?
            $.additionalproperties: unknown keyword 'additionalproperties' is ignored; did you mean 'additionalProperties'?
            $.properties.a.properties: 'properties' without 'type' also accepts strings, numbers and arrays; add "type": "object""#]],
    );
    check_lint(
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["nmae"], "additionalProperties": false}),
        expect![
            "$.required: 'nmae' is required but not in 'properties', and 'additionalProperties' is false: no object can satisfy this; did you mean 'name'?"
        ],
    );
    check_lint(
        json!({"type": "integer", "minimum": 5, "maximum": 3, "maxLength": 4}),
        expect![[r#"
            $.maxLength: 'maxLength' has no effect on type integer; it applies to string
            $.minimum: 'minimum' 5 and 'maximum' 3 contradict each other: no value can satisfy both"#]],
    );
    check_lint(json!({"type": "string", "description": "fine", "x-note": 1}), expect![[""]]);
    check_lint(
        json!(false),
        expect!["$: no value satisfies the schema: $ allows nothing, so every run fails; correct it"],
    );
    check_lint(
        json!({"type": "object", "required": ["a"], "properties": {"a": {"enum": []}}}),
        expect![[r#"
            $.properties.a.enum: an empty 'enum' accepts nothing
            $: no value satisfies the schema: $.a allows nothing, so every run fails; correct it"#]],
    );
    check_lint(
        json!({"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": true}}}),
        expect![[
            "$.type: 'OBJECT' is the form of Google's APIs, which is accepted; in JSON Schema, write 'object'"
        ]],
    );
    check_lint(
        json!({"type": "object", "properties": {
            "age": {"type": "integer", "min": 3, "nullable": true},
            "at": {"type": "string", "format": "datetime"},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}]},
        }, "note": "not a keyword"}),
        expect![[r#"
            $.properties.age.min: unknown keyword 'min' is ignored; did you mean 'minimum'?
            $.properties.age.nullable: 'nullable' has no effect here; write "type": ["string", "null"] to allow null
            $.properties.at.format: unknown format 'datetime' is ignored; did you mean 'date-time'?
            $.properties.pair.prefixItems: 'prefixItems' is unknown to draft-07 and has no effect; add "$schema": "https://json-schema.org/draft/2020-12/schema""#]],
    );
    check_lint(
        json!({"name": "Ada", "age": 3}),
        expect!["$: no JSON Schema keyword found, so any value is accepted"],
    );
    check_lint(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"], "allOf": [
            {"if": {"properties": {"a": {"const": "x"}}}, "then": {"properties": {"b": {"type": "string"}}, "required": ["c"]}},
        ]}),
        expect![[""]],
    );
}

#[test]
fn listed_integers_beyond_64_bits_are_refused() {
    for schema in [json!({"const": 12345678901234567890123_f64}), json!({"items": {"enum": [1, [1e30]]}})] {
        let error = Schema::compile(&schema).unwrap_err().to_string();
        assert!(error.contains("write them as strings"), "{error}");
    }
    for schema in [
        json!({"const": u64::MAX}),
        json!({"enum": [1.5, -3]}),
        json!({"properties": {"const": {"maximum": 1e30}}}),
    ] {
        assert!(Schema::compile(&schema).is_ok(), "{schema}");
    }
}

#[test]
fn schema_in_googles_form_is_compiled_as_json_schema() {
    let schema = Schema::compile(&json!({
        "type": "OBJECT",
        "properties": {"name": {"type": "STRING"}, "size": {"type": "INTEGER", "nullable": true}},
        "required": ["name"],
    }))
    .unwrap();
    assert!(schema.is_valid(&json!({"name": "a", "size": null})));
    assert_eq!(
        schema.violations(&json!({"name": 1})).lines(),
        ["$.name: must be a string, not an integer (1)"]
    );
    assert_eq!(schema.source()["type"], "object");
}

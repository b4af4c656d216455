//! The values that grammars admit, and random walks that end in valid answers.

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_embedded::grammar::{Bounds, Compiler, Error, close};
use slipform_schema::Schema;
use toktrie::{ApproximateTokEnv, TokEnv};

struct Case {
    schema: Value,
    admits: Vec<Value>,
    refuses: Vec<Value>,
    unenforced: Vec<&'static str>,
}

fn case(schema: Value, admits: Vec<Value>, refuses: Vec<Value>, unenforced: Vec<&'static str>) -> Case {
    Case { schema, admits, refuses, unenforced }
}

fn scalars() -> Vec<Case> {
    vec![
        case(
            json!({"type": "integer", "minimum": 3, "maximum": 12}),
            vec![json!(3), json!(12)],
            vec![json!(2), json!(13)],
            vec![],
        ),
        case(
            json!({"type": "number", "multipleOf": 0.5, "maximum": 2}),
            vec![json!(1.5)],
            vec![json!(1.2), json!(2.5)],
            vec![],
        ),
        case(json!({"type": ["string", "null"]}), vec![json!("x"), Value::Null], vec![json!(1)], vec![]),
        case(
            json!({"enum": ["a", 1, null, {"b": [1]}]}),
            vec![json!(1), json!({"b": [1]})],
            vec![json!("b")],
            vec![],
        ),
        case(
            json!({"enum": ["a", "bb", 3], "type": "string", "minLength": 2}),
            vec![json!("bb")],
            vec![json!("a"), json!(3)],
            vec![],
        ),
        case(
            json!({"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4}),
            vec![json!("abcd")],
            vec![json!("a"), json!("abcde")],
            vec![],
        ),
        case(
            json!({"type": "string", "format": "date"}),
            vec![json!("2024-02-29")],
            vec![json!("2023-02-29")],
            vec![],
        ),
        case(json!({"type": "string", "pattern": "^(a)\\1$"}), vec![], vec![], vec!["pattern"]),
        case(
            json!({"type": "string", "not": {"enum": ["no"]}}),
            vec![json!("yes")],
            vec![json!("no")],
            vec![],
        ),
        case(
            json!({"type": "string", "not": {"pattern": "^x"}}),
            vec![json!("yes")],
            vec![json!("xy")],
            vec![],
        ),
        case(
            json!({"not": {"type": ["object", "array", "number"]}}),
            vec![json!("s"), json!(true)],
            vec![json!(1), json!({})],
            vec![],
        ),
    ]
}

fn objects() -> Vec<Case> {
    vec![
        case(
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["b"]}),
            vec![json!({"b": 1}), json!({"a": "", "b": 1})],
            vec![json!({"a": ""}), json!({"b": 1, "c": 1})],
            vec![],
        ),
        case(
            json!({"type": "object", "properties": {"a": true, "b": true, "c": true}, "minProperties": 2, "maxProperties": 2}),
            vec![json!({"a": 1, "c": 1})],
            vec![json!({"a": 1}), json!({"a": 1, "b": 1, "c": 1})],
            vec![],
        ),
        case(
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            vec![json!({"any key": 1})],
            vec![json!({"any key": "x"})],
            vec![],
        ),
        case(
            json!({"type": "object", "patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": false}),
            vec![json!({"x-a": 1}), json!({})],
            vec![json!({"y": 1})],
            vec![],
        ),
        case(
            json!({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "null"}}),
            vec![json!({"a": null})],
            vec![json!({"c": null})],
            vec![],
        ),
        case(
            json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "dependentRequired": {"a": ["b"]},
                "$schema": "https://json-schema.org/draft/2020-12/schema"}),
            vec![json!({}), json!({"b": 1}), json!({"a": 1, "b": 1})],
            vec![json!({"a": 1})],
            vec![],
        ),
    ]
}

fn arrays() -> Vec<Case> {
    vec![
        case(
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}),
            vec![json!([1])],
            vec![json!([]), json!([1, 2, 3])],
            vec![],
        ),
        case(
            json!({"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": false}),
            vec![json!(["a", 1])],
            vec![json!(["a", "b"])],
            vec![],
        ),
        case(
            json!({"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true, "minItems": 2}),
            vec![json!(["a", "c"])],
            vec![json!(["a"])],
            vec![],
        ),
        case(
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
            vec![json!(["a"])],
            vec![],
            vec!["uniqueItems"],
        ),
        case(
            json!({"type": "array", "contains": {"type": "integer"}}),
            vec![json!([1, "a"])],
            vec![json!([])],
            vec![],
        ),
    ]
}

fn compositions() -> Vec<Case> {
    vec![
        case(
            json!({"oneOf": [{"type": "number", "maximum": 2}, {"type": "number", "maximum": 5}]}),
            vec![json!(4)],
            vec![json!(1), json!(6)],
            vec![],
        ),
        case(
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            vec![json!({"a": ""}), json!({"b": ""})],
            vec![json!({}), json!({"a": "", "b": ""})],
            vec![],
        ),
        case(
            json!({"type": "object", "properties": {"member": {"type": "boolean"}, "number": {"type": "string"}}, "required": ["member"],
                "if": {"properties": {"member": {"const": true}}}, "then": {"required": ["number"]}, "else": {"properties": {"number": false}}}),
            vec![json!({"member": true, "number": "1"}), json!({"member": false})],
            vec![json!({"member": true}), json!({"member": false, "number": "1"})],
            vec![],
        ),
        case(
            json!({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"a": {"minimum": 5}}}], "type": "object"}),
            vec![json!({"a": 5})],
            vec![json!({"a": 4}), json!({})],
            vec![],
        ),
        case(
            json!({"$ref": "#/definitions/node", "definitions": {"node": {"type": "object", "properties": {"value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/definitions/node"}}}, "required": ["value"]}}}),
            vec![json!({"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]})],
            vec![json!({"children": []})],
            vec![],
        ),
        case(
            json!({"x-guidance": {"lenient": true}, "type": "string", "maxLength": 1}),
            vec![json!("a")],
            vec![json!("ab")],
            vec![],
        ),
    ]
}

fn compiler() -> (TokEnv, Compiler) {
    let env: TokEnv = Arc::new(ApproximateTokEnv::single_byte());
    let compiler = Compiler::new(&env).unwrap();
    (env, compiler)
}

#[test]
fn grammars_admit_valid_values_and_random_walks_end_valid() {
    let (env, compiler) = compiler();
    for case in [scalars(), objects(), arrays(), compositions()].into_iter().flatten() {
        let schema = Schema::compile(&case.schema).unwrap();
        let grammar = compiler.compile(&case.schema, &Bounds::default()).unwrap();
        assert_eq!(grammar.unenforced, case.unenforced, "{}", case.schema);
        for value in &case.admits {
            assert!(schema.is_valid(value), "{value} is no instance of {}", case.schema);
            assert!(grammar.admits(value), "{value} is not admitted by {}\n{}", case.schema, grammar.text);
        }
        for value in &case.refuses {
            assert!(!grammar.admits(value), "{value} is admitted by {}\n{}", case.schema, grammar.text);
        }
        for seed in 1..40_u64 {
            let value = walked(&env, &grammar, seed);
            assert!(!case.unenforced.is_empty() || schema.is_valid(&value), "{value} from {}", case.schema);
        }
    }
}

/// Takes random tokens, closes the answer after some of them, and parses it.
fn walked(env: &TokEnv, grammar: &slipform_embedded::grammar::Grammar, seed: u64) -> Value {
    let trie = env.tok_trie();
    let mut matcher = grammar.matcher();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut tokens = Vec::new();
    for _ in 0..seed % 24 {
        if matcher.is_stopped() {
            break;
        }
        let mask = matcher.compute_mask().unwrap();
        let mut allowed = Vec::new();
        mask.iter_set_entries(|token| allowed.push(token as u32));
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let token = allowed[(state >> 33) as usize % allowed.len()];
        if token == trie.eos_token() {
            break;
        }
        matcher.consume_token(token).unwrap();
        tokens.push(token);
    }
    tokens.extend(close(&matcher).expect("every grammar can be closed"));
    let text = String::from_utf8(trie.decode(&tokens)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn members_keep_the_order_of_the_schema() {
    let (_, compiler) = compiler();
    let schema = json!({"type": "object", "properties": {"z": {"const": 1}, "a": {"const": 2}}, "required": ["a", "z"]});
    let grammar = compiler.compile(&schema, &Bounds::default()).unwrap();
    let closing = close(&grammar.matcher()).unwrap();
    let bytes: Vec<u8> = closing.iter().map(|token| *token as u8).collect();
    assert_eq!(String::from_utf8(bytes).unwrap(), r#"{"z": 1, "a": 2}"#);
}

#[test]
fn value_at_a_grammar_bound_is_reported() {
    let (_, compiler) = compiler();
    let bounds = Bounds { string_characters: 5, items: 2, ..Bounds::default() };
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}, "list": {"type": "array", "items": {"type": "string", "maxLength": 2}}}});
    let grammar = compiler.compile(&schema, &bounds).unwrap();
    assert!(grammar.touches_bound(&json!({"text": "12345"})));
    assert!(grammar.touches_bound(&json!({"list": ["", ""]})));
    assert!(!grammar.touches_bound(&json!({"text": "1234", "list": ["ab"]})));
}

#[test]
fn impossible_and_remote_schemas_are_refused() {
    let (_, compiler) = compiler();
    let impossible = json!({"type": "object", "properties": {"a": false}, "required": ["a"]});
    assert!(matches!(compiler.compile(&impossible, &Bounds::default()), Err(Error::Unsatisfiable)));
    let remote = json!({"$ref": "https://example.com/schema.json"});
    assert!(matches!(compiler.compile(&remote, &Bounds::default()), Err(Error::Schema(_))));
}

#[test]
fn hostile_schemas_take_bounded_time_and_memory() {
    let (_, compiler) = compiler();
    let branches = || json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
    let entangled: Vec<Value> = (0..40).map(|_| branches()).chain([json!({"anyOf": [false]})]).collect();
    let many: Vec<String> = (0..3000).map(|number| format!("member {number}")).collect();
    let union: Value = json!({"anyOf": [{"$ref": "#/$defs/u"}, {"$ref": "#/$defs/u"}, {"const": 1}]});
    let deep = (0..60)
        .fold(json!({"type": "null"}), |inner, _| json!({"type": "array", "items": inner, "minItems": 1}));
    let hostile = [
        json!({"type": "object", "minProperties": 1_000_000_000}),
        json!({"type": "array", "minItems": 1_000_000_000}),
        json!({"type": "array", "contains": {"const": 1}, "minContains": u64::MAX}),
        json!({"type": "string", "minLength": 1_000_000_000}),
        json!({"allOf": entangled}),
        json!({"type": "object", "required": many}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/u", "enum": [1, 2], "$defs": {"u": union}}),
        json!({"type": "integer", "exclusiveMinimum": 1e300}),
        json!({"type": "number", "minimum": 1e300, "not": {"const": 1.0}}),
        json!({"type": "string", "pattern": "^((a+)+)+$"}),
        json!({"type": "string", "pattern": "(x{0,900}){0,900}"}),
        deep,
    ];
    for schema in hostile {
        if let Ok(grammar) = compiler.compile(&schema, &Bounds::default()) {
            let _ = close(&grammar.matcher());
        }
    }
}

#[test]
fn unenforced_keywords_are_listed() {
    let (_, compiler) = compiler();
    let unenforced = |schema: Value| compiler.compile(&schema, &Bounds::default()).unwrap().unenforced;
    assert_eq!(unenforced(json!({"type": "array", "not": {"const": []}})), ["not"]);
    assert_eq!(unenforced(json!({"type": "number", "minimum": 1e300})), ["minimum"]);
    let contains = json!({"type": "array", "contains": {"const": 1}, "minContains": 100, "$schema": "https://json-schema.org/draft/2020-12/schema"});
    assert_eq!(unenforced(contains), ["minContains"]);
    let one = json!({"type": "number", "not": {"enum": [1]}, "minimum": 0, "maximum": 2});
    let grammar = compiler.compile(&one, &Bounds::default()).unwrap();
    assert!(grammar.unenforced.is_empty() && !grammar.admits(&json!(1.0)) && !grammar.admits(&json!(1)));
    assert!(grammar.admits(&json!(1.5)) && grammar.admits(&json!(2)));
}

//! Malicious schemas and values: each must be refused or validated in bounded time, without a crash.

use std::io::ErrorKind;
use std::net::TcpListener;

use serde_json::{Value, json};
use slipform_schema::{Error, Schema};

fn compile_error(schema: &Value) -> String {
    Schema::compile(schema).expect_err("the schema should be refused").to_string()
}

#[test]
fn external_reference_is_refused_without_io() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let reference = format!("http://{address}/schema.json");
    let message = compile_error(&json!({"properties": {"a": {"$ref": reference}}}));
    assert!(message.starts_with("$.properties.a.$ref: the reference 'http://127.0.0.1:"), "{message}");
    assert_eq!(listener.accept().map(|_| ()).unwrap_err().kind(), ErrorKind::WouldBlock);

    let file = format!("file://{}", std::env::current_exe().unwrap().display());
    let message = compile_error(&json!({"$ref": file}));
    assert!(message.contains("only references inside the schema are followed"), "{message}");
}

#[test]
fn reference_to_metaschema_is_resolved() {
    let schema = Schema::compile(&json!({"$ref": "http://json-schema.org/draft-07/schema#"})).unwrap();
    assert!(schema.is_valid(&json!({"type": "string"})));
    assert!(!schema.is_valid(&json!({"type": 5})));
}

#[test]
fn missing_reference_target_is_reported_with_path() {
    let message = compile_error(&json!({"items": {"$ref": "#/definitions/missing"}}));
    assert!(message.starts_with("$.items.$ref: the reference '#/definitions/missing'"), "{message}");
}

#[test]
fn reference_cycle_on_same_instance_is_refused() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}),
        json!({"allOf": [{"$ref": "#/definitions/a"}], "definitions": {"a": {"anyOf": [{"$ref": "#"}]}}}),
        json!({"$id": "http://example.com/root", "allOf": [{"$ref": "http://example.com/root"}]}),
    ] {
        assert!(matches!(Schema::compile(&schema), Err(Error::Cycle { .. })), "{schema}");
    }
}

fn doubling(levels: usize, keyword: &str) -> Value {
    let mut definitions = serde_json::Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/definitions/n{}", level + 1)});
        definitions.insert(format!("n{level}"), json!({keyword: [next.clone(), next]}));
    }
    definitions.insert(format!("n{levels}"), json!({"type": "string"}));
    json!({"$ref": "#/definitions/n0", "definitions": definitions})
}

#[test]
fn exponential_expansion_is_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let message = compile_error(&doubling(30, keyword));
        assert!(message.contains("subschemas that apply to one value"), "{message}");
    }
    assert!(Schema::compile(&doubling(8, "allOf")).unwrap().is_valid(&json!("x")));
}

/// Returns a schema with two branches that both descend: the work doubles with every level of the value.
fn branching() -> Value {
    json!({
        "$ref": "#/definitions/node",
        "definitions": {"node": {"allOf": [
            {"properties": {"next": {"$ref": "#/definitions/node"}}},
            {"properties": {"next": {"$ref": "#/definitions/node"}}, "type": "object"},
        ]}},
    })
}

fn chain(depth: usize, end: Value) -> Value {
    (0..depth).fold(end, |inner, _| wrap("next", inner))
}

/// Wraps a value without `json!`, which would copy the inner value recursively.
fn wrap(key: &str, inner: Value) -> Value {
    Value::Object([(key.to_owned(), inner)].into_iter().collect())
}

#[test]
fn exponential_recursion_over_value_stops_at_budget() {
    let schema = Schema::compile(&branching()).unwrap();
    assert!(schema.is_valid(&chain(8, json!({}))));
    assert!(!schema.is_valid(&chain(8, json!("x"))));
    assert!(!schema.is_valid(&chain(100, json!("x"))));
    let lines = schema.violations(&chain(100, json!("x"))).lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("too entangled") || lines[0].contains("must be an object"), "{lines:?}");
}

#[test]
fn recursion_through_unknown_keywords_stops_at_budget() {
    let branch = |name: &str| json!({"properties": {"next": {"$ref": "#/components/n"}}, "required": [name]});
    let schema = json!({
        "properties": {"a": {"$ref": "#/components/n"}},
        "components": {"n": {"anyOf": [branch("y"), branch("z")]}},
    });
    let schema = Schema::compile(&schema).unwrap();
    let value = wrap("a", chain(60, json!(1)));
    assert!(!schema.is_valid(&value));
    let lines = schema.violations(&value).lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("too entangled"), "{lines:?}");

    let hidden = json!({"properties": {"a": {"$ref": "#/x/n0"}}, "x": doubling(30, "allOf")["definitions"]});
    let hidden = serde_json::from_str(&hidden.to_string().replace("#/definitions/", "#/x/")).unwrap();
    assert!(compile_error(&hidden).contains("subschemas that apply to one value"));
}

#[test]
fn many_failing_branches_use_bounded_memory() {
    let branches: Vec<Value> = (0..500).map(|number| json!({"required": [format!("p{number}")]})).collect();
    let schema = Schema::compile(&json!({"items": {"anyOf": branches}})).unwrap();
    let value: Value = (0..5_000).map(|number| json!({"id": number})).collect::<Vec<_>>().into();
    let violations = schema.violations(&value);
    assert!(!violations.is_empty());
}

#[test]
fn value_above_depth_limit_is_a_violation() {
    let schema = Schema::compile(&json!({"properties": {"next": {"$ref": "#"}}})).unwrap();
    assert!(schema.is_valid(&chain(127, json!(1))));
    // Leaked, because dropping such a deep value overflows the test's stack.
    let deep: &Value = Box::leak(Box::new(chain(10_000, json!(1))));
    assert!(!schema.is_valid(deep));
    assert!(schema.violations(deep).lines()[0].contains("nested deeper than the 128 levels"));
}

#[test]
fn long_reference_chain_over_deep_value_does_not_overflow_stack() {
    let mut definitions = serde_json::Map::new();
    for level in 0..60 {
        definitions.insert(
            format!("n{level}"),
            json!({"allOf": [{"$ref": format!("#/definitions/n{}", level + 1)}]}),
        );
    }
    definitions.insert("n60".into(), json!({"properties": {"next": {"$ref": "#/definitions/n0"}}}));
    let source = json!({"$ref": "#/definitions/n0", "definitions": definitions});
    assert!(Schema::compile(&source).unwrap().is_valid(&chain(127, json!(1))));

    definitions.insert("n61".into(), json!({"$ref": "#/definitions/n62"}));
    for level in 62..200 {
        definitions.insert(format!("n{level}"), json!({"$ref": format!("#/definitions/n{}", level + 1)}));
    }
    definitions.insert("n200".into(), json!({}));
    let message = compile_error(&json!({"$ref": "#/definitions/n61", "definitions": definitions}));
    assert!(message.contains("chain of references"), "{message}");
}

#[test]
fn schema_above_size_limits_is_refused() {
    let deep: &Value = Box::leak(Box::new((0..10_000).fold(json!({}), |inner, _| wrap("items", inner))));
    assert!(compile_error(deep).contains("the nesting of the schema"));
    let wide: Value =
        (0..60_000).map(|index| (format!("p{index}"), json!({}))).collect::<serde_json::Map<_, _>>().into();
    assert!(compile_error(&json!({"properties": wide})).contains("the number of subschemas"));
    assert!(compile_error(&json!({"description": "x".repeat(5_000_000)})).contains("length of the schema"));
}

#[test]
fn catastrophic_pattern_runs_in_bounded_time() {
    let hostile = json!("a".repeat(50_000) + "!");
    let linear = Schema::compile(&json!({"pattern": "^(a+)+$"})).unwrap();
    assert!(!linear.is_valid(&hostile));
    let backtracking = Schema::compile(&json!({"pattern": "^(?=a)(a|aa)+$(?<!b)"})).unwrap();
    let lines = backtracking.violations(&hostile).lines();
    assert!(lines[0].contains("takes too long"), "{lines:?}");
    assert!(compile_error(&json!({"pattern": "a{1000}{1000}{1000}"})).starts_with("$.pattern"));
    assert!(
        compile_error(&json!({"properties": {"x": {"pattern": "(unclosed"}}}))
            .starts_with("$.properties.x.pattern")
    );
}

#[test]
fn invalid_schema_is_reported_with_path() {
    for (schema, expected) in [
        (json!({"type": "strin"}), "$.type: "),
        (json!({"properties": {"a": {"minimum": "3"}}}), "$.properties.a.minimum: "),
        (json!({"required": "name"}), "$.required: "),
        (json!(5), "$: "),
        (json!({"$schema": "https://example.com/unknown"}), "$.$schema: "),
    ] {
        let message = compile_error(&schema);
        assert!(message.starts_with(expected), "{schema}: {message}");
    }
}

#[test]
fn counting_keyword_in_user_schema_is_ignored() {
    let schema =
        Schema::compile(&json!({"x-slipform-step": 5, "properties": {"next": {"$ref": "#"}}})).unwrap();
    assert!(schema.is_valid(&chain(3, json!(1))));
}

//! Schemas and values made to hurt: each must end in an error, in bounded time, without a crash.

use std::io::ErrorKind;
use std::net::TcpListener;

use serde_json::{Value, json};
use slipform_schema::{Error, Schema};

fn refused(schema: &Value) -> String {
    Schema::compile(schema).expect_err("the schema should be refused").to_string()
}

#[test]
fn references_open_no_socket_and_no_file() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let reference = format!("http://{address}/schema.json");
    let message = refused(&json!({"properties": {"a": {"$ref": reference}}}));
    assert!(message.starts_with("$.properties.a.$ref: the reference 'http://127.0.0.1:"), "{message}");
    assert_eq!(listener.accept().map(|_| ()).unwrap_err().kind(), ErrorKind::WouldBlock);

    let file = format!("file://{}", std::env::current_exe().unwrap().display());
    let message = refused(&json!({"$ref": file}));
    assert!(message.contains("only references inside the schema are followed"), "{message}");
}

#[test]
fn metaschemas_are_built_in() {
    let schema = Schema::compile(&json!({"$ref": "http://json-schema.org/draft-07/schema#"})).unwrap();
    assert!(schema.is_valid(&json!({"type": "string"})));
    assert!(!schema.is_valid(&json!({"type": 5})));
}

#[test]
fn broken_references_name_their_place() {
    let message = refused(&json!({"items": {"$ref": "#/definitions/missing"}}));
    assert!(message.starts_with("$.items.$ref: the reference '#/definitions/missing'"), "{message}");
}

#[test]
fn cycles_that_consume_nothing_are_refused() {
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
fn doubling_thirty_times_is_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let message = refused(&doubling(30, keyword));
        assert!(message.contains("subschemas that apply to one value"), "{message}");
    }
    assert!(Schema::compile(&doubling(8, "allOf")).unwrap().is_valid(&json!("x")));
}

/// Two branches that both descend: the work doubles with every level of the value.
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

/// `json!` would copy the inner value by recursion.
fn wrap(key: &str, inner: Value) -> Value {
    Value::Object([(key.to_owned(), inner)].into_iter().collect())
}

#[test]
fn exponential_recursion_over_the_value_is_given_up() {
    let schema = Schema::compile(&branching()).unwrap();
    assert!(schema.is_valid(&chain(8, json!({}))));
    assert!(!schema.is_valid(&chain(8, json!("x"))));
    assert!(!schema.is_valid(&chain(100, json!("x"))));
    let lines = schema.violations(&chain(100, json!("x"))).lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("too entangled") || lines[0].contains("must be an object"), "{lines:?}");
}

#[test]
fn recursion_through_places_that_no_keyword_knows_is_metered_too() {
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
    assert!(refused(&hidden).contains("subschemas that apply to one value"));
}

#[test]
fn many_failing_branches_do_not_fill_the_memory() {
    let branches: Vec<Value> = (0..500).map(|number| json!({"required": [format!("p{number}")]})).collect();
    let schema = Schema::compile(&json!({"items": {"anyOf": branches}})).unwrap();
    let value: Value = (0..5_000).map(|number| json!({"id": number})).collect::<Vec<_>>().into();
    let violations = schema.violations(&value);
    assert!(!violations.is_empty());
}

#[test]
fn deep_values_are_violations() {
    let schema = Schema::compile(&json!({"properties": {"next": {"$ref": "#"}}})).unwrap();
    assert!(schema.is_valid(&chain(127, json!(1))));
    // Leaked, because dropping so deep a value would itself overflow the test's stack.
    let deep: &Value = Box::leak(Box::new(chain(10_000, json!(1))));
    assert!(!schema.is_valid(deep));
    assert!(schema.violations(deep).lines()[0].contains("nested deeper than the 128 levels"));
}

#[test]
fn deep_and_long_reference_chains_fit_the_stack() {
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
    let message = refused(&json!({"$ref": "#/definitions/n61", "definitions": definitions}));
    assert!(message.contains("chain of references"), "{message}");
}

#[test]
fn deep_schemas_are_refused() {
    let deep: &Value = Box::leak(Box::new((0..10_000).fold(json!({}), |inner, _| wrap("items", inner))));
    assert!(refused(deep).contains("the nesting of the schema"));
    let wide: Value =
        (0..60_000).map(|index| (format!("p{index}"), json!({}))).collect::<serde_json::Map<_, _>>().into();
    assert!(refused(&json!({"properties": wide})).contains("the number of subschemas"));
    assert!(refused(&json!({"description": "x".repeat(5_000_000)})).contains("length of the schema"));
}

#[test]
fn patterns_run_in_linear_time_or_are_bounded() {
    let hostile = json!("a".repeat(50_000) + "!");
    let linear = Schema::compile(&json!({"pattern": "^(a+)+$"})).unwrap();
    assert!(!linear.is_valid(&hostile));
    let backtracking = Schema::compile(&json!({"pattern": "^(?=a)(a|aa)+$(?<!b)"})).unwrap();
    let lines = backtracking.violations(&hostile).lines();
    assert!(lines[0].contains("takes too long"), "{lines:?}");
    assert!(refused(&json!({"pattern": "a{1000}{1000}{1000}"})).starts_with("$.pattern"));
    assert!(
        refused(&json!({"properties": {"x": {"pattern": "(unclosed"}}}))
            .starts_with("$.properties.x.pattern")
    );
}

#[test]
fn invalid_schemas_name_the_place() {
    for (schema, expected) in [
        (json!({"type": "strin"}), "$.type: "),
        (json!({"properties": {"a": {"minimum": "3"}}}), "$.properties.a.minimum: "),
        (json!({"required": "name"}), "$.required: "),
        (json!(5), "$: "),
        (json!({"$schema": "https://example.com/unknown"}), "$.$schema: "),
    ] {
        let message = refused(&schema);
        assert!(message.starts_with(expected), "{schema}: {message}");
    }
}

#[test]
fn the_counting_keyword_cannot_be_used_from_outside() {
    let schema =
        Schema::compile(&json!({"x-slipform-step": 5, "properties": {"next": {"$ref": "#"}}})).unwrap();
    assert!(schema.is_valid(&chain(3, json!(1))));
}

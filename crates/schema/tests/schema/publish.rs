//! Published schemas accept what the originals accept, in the drafts that clients read them in.

use std::fs;

use serde_json::{Value, json};
use slipform_schema::{Schema, publish_input, publish_output};
use slipform_testkit::corpus;

/// Compiles a published schema as a client would.
fn compile_as(published: &serde_json::Map<String, Value>, draft: &str) -> Schema {
    let mut schema = published.clone();
    schema.shift_insert(0, "$schema".to_owned(), json!(draft));
    Schema::compile(&Value::Object(schema)).unwrap_or_else(|error| panic!("{error}: {published:?}"))
}

const DRAFTS: [&str; 2] =
    ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"];

/// Checks one schema with its instances. Returns how many instances were compared, and how many that the original
/// refuses are refused by the published schema too.
fn check(id: &str, source: &Value, instances: &[&Value]) -> (usize, usize) {
    let Ok(original) = Schema::compile(source) else { return (0, 0) };
    let published = publish_output(source).unwrap_or_else(|error| panic!("{id}: {error}"));
    assert_eq!(published.schema["type"], "object", "{id}");
    assert!(!published.schema.contains_key("$schema"), "{id}");
    let text = Value::Object(published.schema.clone()).to_string();
    let input = publish_input(source).unwrap();
    assert_eq!(input["type"], "object", "{id}");
    assert!(["allOf", "anyOf", "oneOf"].iter().all(|keyword| !input.contains_key(*keyword)), "{id}");
    let compiled_input = DRAFTS.map(|draft| compile_as(&input, draft));
    let compiled = DRAFTS.map(|draft| compile_as(&published.schema, draft));
    let (mut compared, mut refused) = (0, 0);
    for instance in instances {
        let sent = if published.is_wrapped { json!({"result": instance}) } else { (*instance).clone() };
        let is_valid = original.is_valid(instance);
        for (draft, compiled) in DRAFTS.iter().zip(&compiled) {
            let violations = compiled.violations(&sent);
            assert!(
                !is_valid || violations.is_empty(),
                "{id} in {draft}: {sent}: {:?}\n{text}",
                violations.lines()
            );
        }
        if is_valid && instance.is_object() {
            for compiled in &compiled_input {
                let violations = compiled.violations(instance);
                assert!(violations.is_empty(), "{id}: {instance}: {:?}\n{input:?}", violations.lines());
            }
        }
        if is_valid {
            assert!(published.is_wrapped || instance.is_object(), "{id}: {instance}");
        } else if !compiled[0].is_valid(&sent) {
            refused += 1;
        }
        compared += 1;
    }
    (compared, refused)
}

#[test]
fn published_schemas_accept_what_the_originals_accept() {
    let Some(rows) = crate::support::rows() else { return };
    let (mut compared, mut refused, mut invalid) = (0, 0, 0);
    for row in &rows {
        let id = row["id"].as_str().or(row["name"].as_str()).unwrap_or("?");
        let tests = row["tests"].as_array().unwrap();
        let instances: Vec<&Value> = tests.iter().map(|test| &test["data"]).collect();
        invalid += tests.iter().filter(|test| test["valid"] == false).count();
        let (of_row, refused_of_row) = check(id, &row["schema"], &instances);
        compared += of_row;
        refused += refused_of_row;
    }
    println!(
        "{compared} instances of {} schemas; {refused} of {invalid} invalid ones are refused",
        rows.len()
    );
    // Weaker where validators differ, and not much weaker.
    assert!(refused * 10 >= invalid * 9, "{refused} of {invalid}");
}

#[test]
fn schemas_of_the_test_suite_are_published_without_refusing_more() {
    let Some(suite) = corpus("json-schema-test-suite") else { return };
    let mut compared = 0;
    for (folder, draft) in [("draft7", DRAFTS[1]), ("draft2020-12", DRAFTS[0])] {
        for entry in fs::read_dir(suite.join("tests").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let groups: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            for group in groups {
                let mut source = group["schema"].clone();
                if let Value::Object(keywords) = &mut source {
                    keywords.entry("$schema").or_insert_with(|| json!(draft));
                }
                let tests = group["tests"].as_array().unwrap();
                let instances: Vec<&Value> = tests.iter().map(|test| &test["data"]).collect();
                let id = format!("{}: {}", path.display(), group["description"]);
                compared += check(&id, &source, &instances).0;
            }
        }
    }
    println!("{compared} instances");
    assert!(compared > 1_000);
}

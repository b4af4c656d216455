//! Cases as data: each file in `cases/` is a list of texts with their expected outcomes.
//!
//! A case has `text`, optionally `mode` (default `strict`), `schema`, `strict_json_only` and `extract_json`,
//! and one of `value` (a success), `invalid` (the violation lines) or `none`. `repairs`, if given, lists the
//! kinds of repair in order.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use slipform_extract::{Mode, Options, Outcome, extract};
use slipform_schema::Schema;

fn check(case: &Value) -> Result<(), String> {
    let options = Options {
        mode: if case["mode"] == "lenient" { Mode::Lenient } else { Mode::Strict },
        strict_json_only: case["strict_json_only"] == true,
        extract_json: case["extract_json"] != false,
        ..Options::default()
    };
    let schema = case.get("schema").map(|schema| Schema::compile(schema).expect("a usable schema"));
    let text = case["text"].as_str().expect("a text");
    let outcome = extract(text, schema.as_ref(), &options);
    let (actual, repairs) = match outcome {
        Outcome::Valid(extraction) => (json!({"value": extraction.value}), extraction.repairs),
        Outcome::Invalid { violations, candidate } => {
            (json!({"invalid": violations.lines()}), candidate.repairs)
        }
        Outcome::NotFound { .. } => (json!({"none": true}), Vec::new()),
        Outcome::TooLong { .. } => (json!({"too_long": true}), Vec::new()),
    };
    let key =
        ["value", "invalid", "none"].into_iter().find(|key| case.get(key).is_some()).expect("an expectation");
    let expected = json!({key: case[key]});
    if actual != expected {
        return Err(format!("expected {expected}\n  actual {actual}"));
    }
    let kinds: Vec<&str> = repairs.iter().map(|repair| repair.kind.name()).collect();
    match case.get("repairs") {
        Some(expected) if *expected != json!(kinds) => {
            Err(format!("expected repairs {expected}\n  actual {kinds:?}"))
        }
        _ => Ok(()),
    }
}

#[test]
fn cases_have_expected_outcome() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut failures = Vec::new();
    let mut total = 0;
    for file in files {
        let cases: Vec<Value> =
            serde_json::from_str(&fs::read_to_string(&file).unwrap()).expect("a list of cases");
        for case in &cases {
            total += 1;
            if let Err(problem) = check(case) {
                let name = file.file_stem().unwrap().to_string_lossy();
                failures.push(format!("{name}: {}\n{problem}", case["text"]));
            }
        }
    }
    assert!(total > 100, "only {total} cases were found");
    assert!(failures.is_empty(), "{} of {total} cases fail:\n{}", failures.len(), failures.join("\n"));
}

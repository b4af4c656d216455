//! The official JSON Schema test suite, read from the shared corpora.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use slipform_schema::{Compiler, Draft};
use slipform_testkit::corpus;

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn remotes(root: &Path) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut pending = vec![root.join("remotes")];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                let relative =
                    path.strip_prefix(root.join("remotes")).unwrap().to_string_lossy().into_owned();
                found.push((format!("http://localhost:1234/{relative}"), read(&path)));
            }
        }
    }
    found.sort_by(|left, right| left.0.cmp(&right.0));
    found
}

/// Returns the documents that a draft may refer to; documents of other drafts do not compile under it.
fn for_draft(documents: &[(String, Value)], folder: &str) -> Vec<(String, Value)> {
    let is_other = |uri: &str| {
        ["draft3", "draft4", "draft6", "draft7", "draft2019-09", "draft2020-12", "v1"]
            .iter()
            .any(|other| *other != folder && uri.contains(&format!("/{other}/")))
    };
    documents.iter().filter(|(uri, _)| !is_other(uri)).cloned().collect()
}

/// Runs the files directly in `folder`. Returns the number of passed tests, and the failures.
fn run(folder: &Path, compiler: &Compiler) -> (usize, Vec<String>) {
    let mut passed = 0;
    let mut failures = Vec::new();
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.into_iter().filter(|path| path.is_file()) {
        for group in read(&file).as_array().unwrap() {
            let name = format!("{}: {}", file.file_stem().unwrap().to_string_lossy(), group["description"]);
            let schema = match compiler.compile(&group["schema"]) {
                Ok(schema) => schema,
                Err(error) => {
                    failures.push(format!("{name}: refused: {error}"));
                    continue;
                }
            };
            for test in group["tests"].as_array().unwrap() {
                let expected = test["valid"].as_bool().unwrap();
                let agrees = schema.is_valid(&test["data"]) == expected
                    && schema.violations(&test["data"]).is_empty() == expected;
                if agrees {
                    passed += 1;
                } else {
                    failures.push(format!("{name}: {}", test["description"]));
                }
            }
        }
    }
    (passed, failures)
}

const DRAFTS: [(&str, Draft); 3] =
    [("draft7", Draft::Draft7), ("draft2019-09", Draft::Draft201909), ("draft2020-12", Draft::Draft202012)];

#[test]
fn required_tests_of_three_drafts_pass() {
    let Some(root) = corpus("json-schema-test-suite") else { return };
    let documents = remotes(&root);
    for (folder, draft) in DRAFTS {
        let documents = for_draft(&documents, folder);
        let compiler = Compiler { assert_formats: false, default_draft: draft, documents };
        let (passed, failures) = run(&root.join("tests").join(folder), &compiler);
        println!("{folder}: {passed} passed, {} failed", failures.len());
        assert!(failures.is_empty(), "{folder}:\n{}", failures.join("\n"));
        assert!(passed > 300, "{folder}: only {passed} tests were found");
    }
}

#[test]
fn optional_format_tests_pass() {
    let Some(root) = corpus("json-schema-test-suite") else { return };
    let mut failures: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (folder, draft) in DRAFTS {
        let compiler = Compiler { default_draft: draft, ..Compiler::default() };
        let (passed, failed) = run(&root.join("tests").join(folder).join("optional/format"), &compiler);
        println!("{folder} optional/format: {passed} passed, {} failed", failed.len());
        for failure in &failed {
            println!("  {failure}");
        }
        failures.insert(folder, failed);
    }
    for (folder, failed) in failures {
        assert!(failed.is_empty(), "{folder}: {failed:#?}");
    }
}

#[test]
fn remote_reference_without_registered_document_is_refused() {
    let Some(root) = corpus("json-schema-test-suite") else { return };
    let file = read(&root.join("tests/draft7/refRemote.json"));
    let compiler = Compiler { assert_formats: false, ..Compiler::default() };
    let refused =
        file.as_array().unwrap().iter().filter(|group| compiler.compile(&group["schema"]).is_err()).count();
    assert!(refused > 4, "only {refused} schemas with remote references were refused");
}

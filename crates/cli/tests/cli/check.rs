//! `slipform check` and `slipform schemas check`: exit status, stdout and stderr.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

/// Creates a folder with `schemas/person.json`. Tests run in parallel, so each needs a different `name`.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("schemas")).unwrap();
    let person = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
        "additionalProperties": false,
    });
    fs::write(folder.join("schemas/person.json"), person.to_string()).unwrap();
    folder
}

struct CommandOutput {
    status: i32,
    stdout: String,
    stderr: String,
}

fn run(folder: &Path, arguments: &[&str], input: &[u8]) -> CommandOutput {
    let mut child = Command::new(env!("CARGO_BIN_EXE_slipform"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    CommandOutput {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn check(name: &str, arguments: &[&str], input: &str, expected: Expect) {
    let ran = run(&folder(name), arguments, input.as_bytes());
    expected
        .assert_eq(&format!("status {}\n--- stdout\n{}--- stderr\n{}", ran.status, ran.stdout, ran.stderr));
}

#[test]
fn valid_json_is_printed_on_stdout() {
    check(
        "valid",
        &["check", "--schema", "person"],
        "Here: {name: 'Ada',}",
        expect![[r#"
            status 0
            --- stdout
            {
              "name": "Ada"
            }
            --- stderr
        "#]],
    );
}

#[test]
fn violations_are_printed_on_stderr_one_per_line() {
    check(
        "invalid",
        &["check", "--schema", "schemas/person.json"],
        r#"{"age": "old", "x": 1}"#,
        expect![[r#"
            status 1
            --- stdout
            --- stderr
            $.age: must be an integer, not a string ('old')
            $.x: unexpected property, remove it; allowed are ['name', 'age']
            $.name: required property is missing
        "#]],
    );
}

#[test]
fn text_without_json_exits_with_status_4() {
    check(
        "none",
        &["check"],
        "I cannot [do] that.",
        expect![[r#"
            status 4
            --- stdout
            --- stderr
            slipform: no JSON found: the text holds no JSON document
        "#]],
    );
    check(
        "exact",
        &["check", "--strict-json-only"],
        "{\n  \"a\": 1,\n}",
        expect![[r#"
            status 4
            --- stdout
            --- stderr
            slipform: no JSON found: the text is not one JSON document: not valid JSON at line 3, column 1
        "#]],
    );
}

#[test]
fn receipt_lists_every_repair() {
    let arguments = ["check", "--schema", "person", "--mode", "lenient", "--receipt"];
    let ran = run(&folder("receipt"), &arguments, br#"{"Name": "Ada", "age": "36"}"#);
    assert_eq!(ran.status, 0);
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(printed["result"], json!({"name": "Ada", "age": 36}));
    let receipt = &printed["receipt"];
    assert_eq!(
        receipt["repairs"],
        json!([
            {"kind": "key_renamed", "pointer": "/name", "from": "Name", "to": "name"},
            {"kind": "number_read", "pointer": "/age", "from": "36", "to": 36},
        ])
    );
    assert!(receipt["schema_hash"].as_str().unwrap().starts_with("sha256:"));
    for key in ["strategy", "calls", "retries", "rungs", "tokens", "unenforced", "flags"] {
        assert!(receipt.get(key).is_some(), "the receipt has no {key}");
    }
}

#[test]
fn unusable_schema_is_refused_with_reason() {
    check(
        "missing-schema",
        &["check", "--schema", "nobody"],
        "{}",
        expect![[r#"
            status 2
            --- stdout
            --- stderr
            slipform: schema `nobody` not found: no such file, and no schemas/nobody.json; pass a file or the name of a schema in schemas/
        "#]],
    );
    let project = folder("bad-schemas");
    for (name, source, expected) in [
        ("broken", "{\"type\": ", "is not JSON: EOF while parsing a value at line 1 column 9\n"),
        (
            "invalid",
            r#"{"properties": {"a": {"type": "text"}}}"#,
            "cannot be used: $.properties.a.type: 'text' is not one of [",
        ),
        (
            "remote",
            r#"{"items": {"$ref": "http://127.0.0.1:9/x.json"}}"#,
            "cannot be used: $.items.$ref: the reference 'http://127.0.0.1:9/x.json' cannot be resolved: only references inside the schema are followed; copy the definition into $defs\n",
        ),
    ] {
        let file = format!("{name}.json");
        fs::write(project.join(&file), source).unwrap();
        let ran = run(&project, &["check", "--schema", &file], b"{}");
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{file}");
        let expected = format!("slipform: the schema in {file} {expected}");
        assert!(ran.stderr.starts_with(&expected), "{expected}\n{}", ran.stderr);
    }
}

#[test]
fn bad_usage_and_unreadable_files_exit_with_status_2() {
    let project = folder("usage");
    for arguments in [
        &["check", "--mode", "loose"][..],
        &["check", "--jsonl", "a", "b"],
        &["check", "--receipt", "--jsonl", "a"],
        &["check", "--max-bytes", "many"],
        &["frobnicate"],
        &[],
    ] {
        let ran = run(&project, arguments, b"");
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(!ran.stderr.is_empty(), "{arguments:?}");
    }
    let ran = run(&project, &["check", "nowhere.txt"], b"");
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.starts_with("slipform: cannot open nowhere.txt: "), "{}", ran.stderr);
    let ran = run(&project, &["check", "schemas"], b"");
    assert_eq!((ran.status, ran.stderr.as_str()), (2, "slipform: cannot read schemas: it is a folder\n"));
}

#[test]
fn text_above_max_bytes_is_refused() {
    let ran = run(&folder("long"), &["check", "--max-bytes", "10"], b"{\"a\": \"123456789\"}");
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert_eq!(
        ran.stderr,
        "slipform: standard input is longer than 10 bytes; shorten it or raise `--max-bytes`\n"
    );
    assert_eq!(run(&folder("long-default"), &["check"], &vec![b' '; 5 * 1024 * 1024]).status, 2);
}

#[test]
fn invalid_utf8_fails_in_strict_and_is_replaced_in_lenient_mode() {
    let project = folder("bytes");
    let text = b"{\"a\": \"\xff\"}";
    let strict = run(&project, &["check"], text);
    assert_eq!(
        (strict.status, strict.stderr.as_str()),
        (1, "$: the text is not UTF-8: byte 7 starts no character\n")
    );
    let lenient = run(&project, &["check", "--mode", "lenient"], text);
    assert_eq!(lenient.status, 0);
    assert_eq!(serde_json::from_str::<Value>(&lenient.stdout).unwrap(), json!({"a": "\u{fffd}"}));
}

#[test]
fn jsonl_input_gives_one_verdict_per_line() {
    let project = folder("jsonl");
    let input = [
        json!({"id": 1, "text": "{\"name\": \"Ada\"}"}).to_string(),
        json!({"id": "two", "text": "{\"age\": 3}"}).to_string(),
        String::new(),
        json!({"id": 3, "text": "nothing here"}).to_string(),
        "not json".to_owned(),
        "[1]".to_owned(),
        json!({"id": 6}).to_string(),
        json!({"id": 7, "text": "[1, 2,]", "schema": {"type": "array"}}).to_string(),
        json!({"id": 8, "text": "{}", "schema": {"type": "nonsense"}}).to_string(),
        json!({"text": "{name: 'x'}"}).to_string(),
    ]
    .join("\n");
    fs::write(project.join("in.jsonl"), &input).unwrap();
    let from_file = run(&project, &["check", "--jsonl", "in.jsonl", "--schema", "person"], b"");
    let from_stdin = run(&project, &["check", "--jsonl", "-", "--schema", "person"], input.as_bytes());
    assert_eq!(from_file.stdout, from_stdin.stdout);
    assert_eq!((from_file.status, from_file.stderr.as_str()), (0, ""));
    let lines: Vec<Value> =
        from_file.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types = "['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']";
    let expected = [
        json!({"id": 1, "valid": true, "value": {"name": "Ada"}, "errors": [], "repairs": []}),
        json!({"id": "two", "valid": false, "value": {"age": 3}, "errors": ["$.name: required property is missing"], "repairs": []}),
        json!({"id": 3, "valid": false, "value": null, "found": false, "errors": ["$: the text holds no JSON document"], "repairs": []}),
        json!({"id": null, "line": 5, "error": "not JSON: expected ident at line 1 column 2"}),
        json!({"id": null, "line": 6, "error": "not an object; a line is {\"id\", \"text\", \"schema\"?}"}),
        json!({"id": 6, "line": 7, "error": "no \"text\"; a line is {\"id\", \"text\", \"schema\"?}"}),
        json!({"id": 7, "valid": true, "value": [1, 2], "errors": [], "repairs": [{"kind": "comma_removed", "pointer": "", "from": null, "to": null}]}),
        json!({"id": 8, "line": 9, "error": format!("the schema cannot be used: $.type: 'nonsense' is not one of {types}")}),
        json!({"id": null, "valid": true, "value": {"name": "x"}, "errors": [], "repairs": [
            {"kind": "key_quoted", "pointer": "/name", "from": "name", "to": "name"},
            {"kind": "quotes_changed", "pointer": "/name", "from": null, "to": null},
        ]}),
    ];
    for (line, expected) in lines.iter().zip(&expected) {
        assert_eq!(line, expected);
    }
    assert_eq!(lines.len(), expected.len());
}

#[test]
fn jsonl_verdict_is_printed_as_soon_as_its_line_is_read() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_slipform"))
        .args(["check", "--jsonl", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for number in 0..3 {
        writeln!(input, "{}", json!({"id": number, "text": "[1]"})).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["id"], number);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn schemas_check_reports_errors_and_warnings() {
    let project = folder("lint");
    let odd = r#"{"type": "object", "require": ["a"], "properties": {"a": {"type": "string"}}}"#;
    fs::write(project.join("odd.json"), odd).unwrap();
    fs::write(project.join("bad.json"), r#"{"type": 5}"#).unwrap();
    let ran = run(&project, &["schemas", "check", "person", "odd.json"], b"");
    assert_eq!(ran.status, 0);
    assert_eq!(
        ran.stderr,
        "person: ok\nodd.json: warning: $.require: unknown keyword 'require' is ignored; did you mean 'required'?\n"
    );
    let ran = run(&project, &["schemas", "check", "--json", "bad.json"], b"");
    assert_eq!(ran.status, 2);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(report[0]["error"].as_str().unwrap().starts_with("$.type: "), "{report}");
}

#[test]
fn check_help_lists_options_examples_and_statuses() {
    let ran = run(&folder("help"), &["check", "--help"], b"");
    assert_eq!(ran.status, 0);
    for word in
        ["--schema", "--mode", "--strict-json-only", "--receipt", "--jsonl", "Examples:", "Exit status:"]
    {
        assert!(ran.stdout.contains(word), "check --help lacks {word}");
    }
    let version = run(&folder("version"), &["--version"], b"").stdout;
    assert_eq!(version, format!("slipform {}\n", env!("CARGO_PKG_VERSION")));
}

/// A planning response without `planning_data`, which the universal schema alone accepts.
const WITHOUT_PLAN: &str = r#"{"response_type": "planning", "status": "success", "message": "A plan."}"#;

#[test]
fn universal_responses_must_satisfy_extra_rules() {
    check(
        "universal",
        &["check", "--schema", "universal-agent-response"],
        WITHOUT_PLAN,
        expect![[r#"
        status 1
        --- stdout
        --- stderr
        $.planning_data: required property is missing, since response_type is 'planning' and status is 'success'; it needs summary and steps
    "#]],
    );
    let project = folder("universal-lines");
    let lines = [
        json!({"id": 1, "text": WITHOUT_PLAN}),
        json!({"id": 2, "text": WITHOUT_PLAN, "schema": {"type": "object"}}),
    ];
    let input = lines.map(|line| line.to_string()).join("\n");
    let arguments = ["check", "--jsonl", "-", "--schema", "universal-agent-response"];
    let verdicts = run(&project, &arguments, input.as_bytes()).stdout;
    let verdicts: Vec<Value> = verdicts.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&verdicts[0]["valid"], &verdicts[1]["valid"]), (&json!(false), &json!(true)));
    let error = verdicts[0]["errors"][0].as_str().unwrap();
    assert!(error.starts_with("$.planning_data: required property is missing"), "{error}");
}

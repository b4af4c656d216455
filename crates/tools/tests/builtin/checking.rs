//! Tests `check:criteria`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use slipform_tools::Toolbox;
use slipform_tools::mcp::{Limits, ToolContext};

use crate::support::{Tree, members};

/// Checks one criterion. Returns `passed` and the note.
async fn decided(tree: &Tree, check: Value) -> (Value, String) {
    let answer = tree.ok("check:criteria", json!({"checks": [check]})).await;
    (answer["checks"][0]["passed"].clone(), members(&answer["checks"], "note").remove(0))
}

#[tokio::test]
async fn files_folders_and_their_content_decide_criteria() {
    let tree = Tree::new(&[
        ("src/auth/jwt.ts", "import jwt from 'jsonwebtoken'\n\n  export function verifyToken() {}\n"),
        ("my notes.md", "one two\n"),
    ]);
    let check = |members: Value| {
        let mut check = json!({"criterion": "c"});
        check.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        check
    };
    let jwt = "src/auth/jwt.ts";
    for (criterion, passed, note) in [
        (json!("File src/auth/jwt.ts exists"), true, "src/auth/jwt.ts is a file"),
        (json!("file src/auth exists"), false, "src/auth is a folder"),
        (json!("Folder src/auth/ exists"), true, "src/auth is a folder"),
        (json!("File src/gone.ts exists"), false, "src/gone.ts does not exist"),
        (
            json!("src/auth/jwt.ts contains verifyToken"),
            true,
            "line 3 of src/auth/jwt.ts: export function verifyToken() {}",
        ),
        (
            json!("src/auth/jwt.ts does not contain jsonwebtoken"),
            false,
            "line 1 of src/auth/jwt.ts: import jwt from 'jsonwebtoken'",
        ),
        (json!("'my notes.md' contains one two"), true, "line 1 of my notes.md: one two"),
        (json!({"criterion": "File src/auth exists"}), false, "src/auth is a folder"),
        (check(json!({"path": "src"})), true, "src is a folder"),
        (check(json!({"path": "src/gone", "absent": true})), true, "src/gone does not exist"),
        (check(json!({"path": "src/auth/jwt.ts/deeper"})), false, "src/auth/jwt.ts/deeper does not exist"),
        (check(json!({"path": jwt, "contains": "sign("})), false, "src/auth/jwt.ts does not contain 'sign('"),
        (
            check(json!({"path": jwt, "contains": "sign(", "absent": true})),
            true,
            "src/auth/jwt.ts does not contain 'sign('",
        ),
        (
            check(json!({"path": jwt, "matches": r"^\s*export function \w+"})),
            true,
            "line 3 of src/auth/jwt.ts: export function verifyToken() {}",
        ),
        (
            check(json!({"path": jwt, "contains": "jwt", "matches": "class"})),
            false,
            "src/auth/jwt.ts does not match 'class'",
        ),
        (check(json!({"path": "src/gone", "contains": "x"})), false, "src/gone does not exist"),
    ] {
        assert_eq!(decided(&tree, criterion.clone()).await, (json!(passed), note.to_owned()), "{criterion}");
    }
}

#[tokio::test]
async fn undecidable_criterion_is_null_with_a_reason() {
    let tree = Tree::new(&[("a.txt", "a\n"), (".git/config", "secret\n"), ("binary", "a\0b")]);
    for (criterion, words) in [
        (json!("It is easy to read"), "not decided: look at the files"),
        (json!("a.txt contains words"), "does not contain 'words' word by word"),
        (json!("gone.txt does not contain TODO"), "gone.txt does not exist"),
        (json!("a.txt contains what it should"), "does not contain 'what it should' word by word"),
        (json!({"criterion": "c", "contains": "a"}), "need the path of a file"),
        (json!({"criterion": "c", "path": "a.txt", "matches": "("}), "the pattern '(' cannot be used"),
        (json!({"criterion": "c", "path": "a.txt", "matches": r"(\w{1000}){1000}"}), "cannot be used"),
        (json!({"criterion": "c", "path": "../a.txt"}), "leads outside the project"),
        (json!({"criterion": "c", "path": "/etc/passwd"}), "is outside the project"),
        (json!({"criterion": "c", "path": ".git/config"}), "is not one of the project's files"),
        (json!({"criterion": "c", "path": "binary", "contains": "a"}), "is a binary file"),
        (json!({"criterion": "c", "path": ".", "contains": "a"}), "is a folder"),
        (
            json!({"criterion": "c", "command": ["true"]}),
            "'true' is not allowed; allow it in slipform.toml: [tools] commands = [\"true\"]",
        ),
        (json!({"criterion": "c", "command": ["true"], "path": "a.txt"}), "a command is checked alone"),
    ] {
        let (passed, note) = decided(&tree, criterion.clone()).await;
        assert!(passed.is_null() && note.contains(words), "{criterion}: {passed} {note}");
    }
}

#[tokio::test]
async fn link_that_leads_outside_decides_nothing() {
    let tree = Tree::new(&[]);
    std::fs::write(tree.outside("secret"), "key\n").unwrap();
    tree.link(tree.outside("secret"), "link");
    let (passed, note) = decided(&tree, json!({"criterion": "c", "path": "link", "contains": "key"})).await;
    assert!(passed.is_null() && note.contains("outside the project"), "{passed} {note}");
}

/// Runs commands as criteria with these commands allowed. Returns `passed` and the note of each.
async fn run(tree: &Tree, allowed: &[&str], commands: &[&[&str]]) -> Vec<(Value, String)> {
    let context = ToolContext {
        folder: tree.root(),
        environment: vec![
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("SEEN".to_owned(), "yes".to_owned()),
        ],
        limits: Limits::default(),
        commands: allowed.iter().map(|&words| words.to_owned()).collect(),
        policy: slipform_tools::ProjectPolicy::default(),
    };
    let toolbox = Toolbox::open(&["check:criteria".to_owned()], &BTreeMap::new(), &context).await.unwrap();
    let checks: Vec<Value> = commands.iter().map(|argv| json!({"criterion": "c", "command": argv})).collect();
    let answer = toolbox.call("check:criteria", &json!({"checks": checks})).await.unwrap();
    let passed: Vec<Value> =
        answer["checks"].as_array().unwrap().iter().map(|check| check["passed"].clone()).collect();
    passed.into_iter().zip(members(&answer["checks"], "note")).collect()
}

#[tokio::test]
async fn exit_status_of_an_allowed_command_decides_the_criterion() {
    let tree = Tree::new(&[("here", "")]);
    let script = "test -f here && echo out $SEEN && echo \"$1\" >&2; exit $2";
    let answer = run(
        &tree,
        &["sh -c", "  ", "true"],
        &[
            &["sh", "-c", script, "sh", "$(id); rm here", "0"],
            &["sh", "-c", script, "sh", "", "3"],
            &["sh", "-e"],
            &["shell"],
            &["true", "and", "more"],
        ],
    )
    .await;
    let expected = [
        (json!(true), "ended with exit status: 0: $(id); rm here"),
        (json!(false), "ended with exit status: 3: out yes"),
        (Value::Null, "'sh -e' is not allowed"),
        (Value::Null, "'shell' is not allowed"),
        (json!(true), "'true and more' ended with exit status: 0"),
    ];
    for ((passed, note), (expected, words)) in answer.iter().zip(&expected) {
        assert!(passed == expected && note.contains(words), "{passed} {note}, not {expected} {words}");
    }
    assert_eq!(answer.len(), expected.len());
}

#[tokio::test]
async fn command_that_cannot_be_started_decides_nothing() {
    let tree = Tree::new(&[]);
    let answer = run(&tree, &["./nothing"], &[&["./nothing"]]).await;
    assert!(answer[0].0.is_null() && answer[0].1.contains("'./nothing' cannot be started"), "{answer:?}");
}

#[tokio::test]
async fn criteria_keep_their_order_and_text() {
    let tree = Tree::new(&[("a", "")]);
    let checks = json!(["  File a exists ", {"criterion": "b", "path": "b"}, "c"]);
    let answer = tree.ok("check:criteria", json!({"checks": checks})).await;
    assert_eq!(members(&answer["checks"], "criterion"), ["  File a exists ", "b", "c"]);
    assert_eq!(tree.ok("check:criteria", json!({"checks": []})).await, json!({"checks": []}));
}

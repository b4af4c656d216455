//! Criteria that are decided by looking.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use slipform_tools::Toolbox;
use slipform_tools::mcp::{Limits, Surroundings};

use crate::tree::{Tree, members};

/// What comes of one check: whether it passed, and the note.
async fn decided(tree: &Tree, check: Value) -> (Value, String) {
    let given = tree.ok("check:criteria", json!({"checks": [check]})).await;
    (given["checks"][0]["passed"].clone(), members(&given["checks"], "note").remove(0))
}

#[tokio::test]
async fn files_and_folders_and_what_is_in_them_decide_criteria() {
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
    for (given, passed, note) in [
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
        assert_eq!(decided(&tree, given.clone()).await, (json!(passed), note.to_owned()), "{given}");
    }
}

#[tokio::test]
async fn what_cannot_be_decided_is_left_open_and_says_why() {
    let tree = Tree::new(&[("a.txt", "a\n"), (".git/config", "secret\n"), ("binary", "a\0b")]);
    for (given, words) in [
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
        let (passed, note) = decided(&tree, given.clone()).await;
        assert!(passed.is_null() && note.contains(words), "{given}: {passed} {note}");
    }
}

#[tokio::test]
async fn a_link_that_leads_outside_decides_nothing() {
    let tree = Tree::new(&[]);
    std::fs::write(tree.outside("secret"), "key\n").unwrap();
    tree.link(tree.outside("secret"), "link");
    let (passed, note) = decided(&tree, json!({"criterion": "c", "path": "link", "contains": "key"})).await;
    assert!(passed.is_null() && note.contains("outside the project"), "{passed} {note}");
}

/// What comes of commands where these are allowed.
async fn run(tree: &Tree, allowed: &[&str], commands: &[&[&str]]) -> Vec<(Value, String)> {
    let surroundings = Surroundings {
        folder: tree.root(),
        environment: vec![
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("SEEN".to_owned(), "yes".to_owned()),
        ],
        limits: Limits::default(),
        commands: allowed.iter().map(|&words| words.to_owned()).collect(),
        policy: slipform_tools::ProjectPolicy::default(),
    };
    let toolbox =
        Toolbox::open(&["check:criteria".to_owned()], &BTreeMap::new(), &surroundings).await.unwrap();
    let checks: Vec<Value> = commands.iter().map(|argv| json!({"criterion": "c", "command": argv})).collect();
    let given = toolbox.call("check:criteria", &json!({"checks": checks})).await.unwrap();
    let passed: Vec<Value> =
        given["checks"].as_array().unwrap().iter().map(|it| it["passed"].clone()).collect();
    passed.into_iter().zip(members(&given["checks"], "note")).collect()
}

#[tokio::test]
async fn commands_that_the_project_allows_decide_by_how_they_end() {
    let tree = Tree::new(&[("here", "")]);
    let script = "test -f here && echo out $SEEN && echo \"$1\" >&2; exit $2";
    let given = run(
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
    for ((passed, note), (expected, words)) in given.iter().zip(&expected) {
        assert!(passed == expected && note.contains(words), "{passed} {note}, not {expected} {words}");
    }
    assert_eq!(given.len(), expected.len());
}

#[tokio::test]
async fn a_command_that_cannot_be_started_decides_nothing() {
    let tree = Tree::new(&[]);
    let given = run(&tree, &["./nothing"], &[&["./nothing"]]).await;
    assert!(given[0].0.is_null() && given[0].1.contains("'./nothing' cannot be started"), "{given:?}");
}

#[tokio::test]
async fn criteria_come_back_in_their_order_and_their_words() {
    let tree = Tree::new(&[("a", "")]);
    let checks = json!(["  File a exists ", {"criterion": "b", "path": "b"}, "c"]);
    let given = tree.ok("check:criteria", json!({"checks": checks})).await;
    assert_eq!(members(&given["checks"], "criterion"), ["  File a exists ", "b", "c"]);
    assert_eq!(tree.ok("check:criteria", json!({"checks": []})).await, json!({"checks": []}));
}

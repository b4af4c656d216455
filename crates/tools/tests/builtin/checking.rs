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
        (json!("../a.ts exports total"), "leads outside the project"),
        (json!(".git/hook.js exports total"), "is not one of the project's files"),
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
async fn code_of_the_project_decides_criteria() {
    let tree = Tree::new(&[
        (
            "src/auth/jwt.ts",
            "import jwt from 'jsonwebtoken'\nexport function generateToken() {}\nfunction decode() {}\n",
        ),
        ("src/cart.py", "import requests\n\nclass Cart:\n    def total(self):\n        return later\n"),
        ("README.md", "We used moment and the function formatDate() before.\n"),
        ("agents/a.yaml", "system_prompt: Check that oldToken() is exported and that it uses lodash.\n"),
        ("package.json", "{\"dependencies\": {\"jsonwebtoken\": \"9\", \"bcrypt\": \"5\"}}\n"),
    ]);
    for (criterion, passed, note) in [
        (
            "Function generateToken() is exported",
            json!(true),
            "line 2 of src/auth/jwt.ts: export function generateToken() {}",
        ),
        (
            "Function decode() is exported",
            json!(false),
            "not exported: line 3 of src/auth/jwt.ts: function decode() {}",
        ),
        ("Function decode() is defined", json!(true), "line 3 of src/auth/jwt.ts: function decode() {}"),
        ("Function verifyToken() is exported", json!(false), "no code of the project mentions 'verifyToken'"),
        ("Function oldToken() is exported", json!(false), "no code of the project mentions 'oldToken'"),
        ("Function formatDate() is defined", json!(false), "no code of the project mentions 'formatDate'"),
        ("src/auth/jwt.ts exports Cart", json!(false), "src/auth/jwt.ts does not mention 'Cart'"),
        ("src/gone.ts exports generateToken", json!(false), "src/gone.ts does not exist"),
        ("The class Cart is defined in src/cart.py", json!(true), "line 3 of src/cart.py: class Cart:"),
        (
            "Function total is implemented",
            Value::Null,
            "not decided: line 4 of src/cart.py: def total(self):",
        ),
        ("Function later is defined", Value::Null, "not decided: line 5 of src/cart.py: return later"),
        (
            "Functions generateToken() and decode() are exported",
            json!(false),
            "not exported: line 3 of src/auth/jwt.ts: function decode() {}",
        ),
        (
            "Uses jsonwebtoken library",
            json!(true),
            "line 1 of src/auth/jwt.ts: import jwt from 'jsonwebtoken'",
        ),
        ("Uses the requests package", json!(true), "line 1 of src/cart.py: import requests"),
        (
            "Uses bcrypt library",
            Value::Null,
            "not decided: line 1 of package.json: {\"dependencies\": {\"jsonwebtoken\": \"9\", \"bcrypt\": \"5\"}}",
        ),
        ("Uses the moment library", json!(false), "no code of the project mentions 'moment'"),
        ("Uses the lodash library for lists", json!(false), "no code of the project mentions 'lodash'"),
        ("src/cart.py uses `jsonwebtoken`", json!(false), "src/cart.py does not mention 'jsonwebtoken'"),
        ("Uses pagination", Value::Null, "not decided: no file that was searched mentions 'pagination'"),
        ("README.md and package.json exist", json!(true), "README.md is a file"),
        ("src/gone.py contains helpers", json!(false), "src/gone.py does not exist"),
        ("README.md and LICENSE.md exist", json!(false), "LICENSE.md does not exist"),
    ] {
        assert_eq!(decided(&tree, json!(criterion)).await, (passed, note.to_owned()), "{criterion}");
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
    let checks: Vec<Value> = commands.iter().map(|argv| json!({"criterion": "c", "command": argv})).collect();
    check_with_commands(tree, allowed, &checks).await
}

async fn check_with_commands(tree: &Tree, allowed: &[&str], checks: &[Value]) -> Vec<(Value, String)> {
    let context = ToolContext {
        folder: tree.root(),
        environment: vec![
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("SEEN".to_owned(), "yes".to_owned()),
        ],
        limits: Limits::default(),
        commands: allowed.iter().map(|words| words.parse().unwrap()).collect(),
        policy: slipform_tools::ProjectPolicy::default(),
    };
    let toolbox = Toolbox::open(&["check:criteria".to_owned()], &BTreeMap::new(), &context).await.unwrap();
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
        &["sh -c **", "true *"],
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
async fn argument_that_no_entry_allows_is_refused_and_the_note_names_the_entry_to_write() {
    let tree = Tree::new(&[("a.txt", "b\na\n")]);
    let answer = run(
        &tree,
        &["sort a.txt"],
        &[&["sort", "a.txt"], &["sort", "a.txt", "--output=evil.yaml"], &["sort"], &["sort", "a.txt", "b"]],
    )
    .await;
    assert_eq!(answer[0].0, json!(true), "{answer:?}");
    assert!(!tree.path("evil.yaml").exists(), "the option wrote a file: {answer:?}");
    assert_eq!(
        answer[1].1,
        "not decided: 'sort a.txt --output=evil.yaml' is not allowed: slipform.toml allows 'sort a.txt' without these \
         arguments; a person can write the whole command into [tools] commands, \"sort a.txt *\" for any arguments that \
         are not options, or \"sort a.txt **\" for options too"
    );
    assert_eq!(
        answer[2].1,
        "not decided: 'sort' is not allowed; allow it in slipform.toml: [tools] commands = [\"sort\"]"
    );
    assert!(answer[3].0.is_null() && answer[3].1.contains("\"sort a.txt *\""), "{answer:?}");
}

#[tokio::test]
async fn wildcards_allow_arguments_but_options_only_where_they_say_so() {
    let tree = Tree::new(&[]);
    let allowed = ["echo *", "printf one * three", "test -f src/*.rs", "true **", "sh -c --", "cat --show=*"];
    let commands: [(&[&str], bool); 16] = [
        (&["echo"], true),
        (&["echo", "a", "b c"], true),
        (&["echo", "a", "-n"], false),
        (&["echo", "--", "a"], false),
        (&["echo", "-"], false),
        (&["printf", "one", "two", "three"], true),
        (&["printf", "one", "three"], false),
        (&["printf", "one", "-v", "three"], false),
        (&["printf", "one", "two", "three", "four"], false),
        (&["test", "-f", "src/main.rs"], true),
        (&["test", "-f", "src/../../x.rs"], false),
        (&["test", "-f", "src/main.rs", "x"], false),
        (&["true", "-a", "--b=c", "d"], true),
        (&["true"], true),
        (&["cat", "--show=", "x"], false),
        (&["/bin/echo", "a"], false),
    ];
    let lists: Vec<&[&str]> = commands.iter().map(|(argv, _)| *argv).collect();
    let answer = run(&tree, &allowed, &lists).await;
    for ((argv, is_allowed), (_, note)) in commands.iter().zip(&answer) {
        assert_eq!(!note.contains("is not allowed"), *is_allowed, "{argv:?}: {note}");
    }
}

#[tokio::test]
async fn command_in_words_runs_only_if_it_is_allowed() {
    let tree = Tree::new(&[("here", "")]);
    let checks = ["test -f here passes", "`test -f gone` succeeds", "`rm here` passes", "All tests pass"];
    let answer = check_with_commands(&tree, &["test **"], &checks.map(|words| json!(words))).await;
    let expected = [
        (json!(true), "'test -f here' ended with exit status: 0"),
        (json!(false), "'test -f gone' ended with exit status: 1"),
        (Value::Null, "'rm here' is not allowed; allow it in slipform.toml"),
        (Value::Null, "not decided: look at the files"),
    ];
    for ((passed, note), (expected, words)) in answer.iter().zip(&expected) {
        assert!(passed == expected && note.contains(words), "{passed} {note}, not {expected} {words}");
    }
    assert!(tree.path("here").exists());
}

#[tokio::test]
async fn command_that_cannot_be_started_decides_nothing() {
    let tree = Tree::new(&[]);
    let answer = run(&tree, &["./nothing"], &[&["./nothing"]]).await;
    assert!(answer[0].0.is_null() && answer[0].1.contains("'./nothing' cannot be started"), "{answer:?}");
}

#[tokio::test]
async fn allowed_command_writes_no_protected_path_and_reads_no_secret() {
    if !slipform_process::is_confinement_available() {
        println!("SKIPPED: this kernel has no Landlock");
        return;
    }
    let tree = Tree::new(&[
        ("agents/a.yaml", "name: a\n"),
        ("lib/.git/config", "[core]\n"),
        ("lib/a.txt", "old\n"),
        ("src/a.txt", "old\n"),
        ("lib/.env", "KEY=secret\n"),
        ("slipform.toml", ""),
    ]);
    let absolute = tree.path("agents/evil.yaml").to_string_lossy().into_owned();
    let scripts = [
        ("echo new > lib/a.txt", true),
        ("mkdir -p src/deep/er && mv src/a.txt src/deep/b.txt", true),
        (&format!("echo evil > {absolute}"), false),
        ("echo evil > slipform.toml", false),
        ("mkdir -p schemas", false),
        ("echo evil > lib/.git/hooks", false),
        ("cat lib/.env", false),
        ("git --version && python3 -c 'import json'", true),
    ];
    let commands: Vec<[&str; 3]> = scripts.iter().map(|(script, _)| ["sh", "-c", *script]).collect();
    let lists: Vec<&[&str]> = commands.iter().map(<[&str; 3]>::as_slice).collect();
    let answer = run(&tree, &["sh -c **"], &lists).await;
    for ((script, passes), (passed, note)) in scripts.iter().zip(&answer) {
        assert_eq!(*passed, json!(passes), "{script}: {note}");
    }
    assert!(!tree.path("agents/evil.yaml").exists() && !tree.path("schemas").exists());
    assert_eq!(std::fs::read_to_string(tree.path("slipform.toml")).unwrap(), "");
}

#[tokio::test]
async fn criteria_keep_their_order_and_text() {
    let tree = Tree::new(&[("a", "")]);
    let checks = json!(["  File a exists ", {"criterion": "b", "path": "b"}, "c"]);
    let answer = tree.ok("check:criteria", json!({"checks": checks})).await;
    assert_eq!(members(&answer["checks"], "criterion"), ["  File a exists ", "b", "c"]);
    assert_eq!(tree.ok("check:criteria", json!({"checks": []})).await, json!({"checks": []}));
}

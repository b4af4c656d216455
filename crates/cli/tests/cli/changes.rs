//! The shipped agents that change files report exactly what they changed.

use std::fs;

use crate::support::{CommandOutput, Project};
use serde_json::{Value, json};
use slipform_testkit::{ScriptedServer, Step};

/// Creates a project with files to change.
fn project(name: &str, server: &ScriptedServer) -> Project {
    Project::new(&format!("changes-{name}"))
        .backend(&server.base_url())
        .file("src/total.py", "def total(lines):\n    return sum(lines)\n")
        .file("src/legacy.py", "def old():\n    pass\n")
        .file("src/names.py", "NAMES = []\n")
}

fn report(files: &[(&str, &str)]) -> Value {
    let file = |(path, action): &(&str, &str)| json!({"path": path, "action": action, "changes": "as asked"});
    json!({"summary": "Done.", "filesModified": files.iter().map(file).collect::<Vec<_>>()})
}

fn tests_report(paths: &[&str]) -> Value {
    let test = |path: &&str| json!({"path": path, "testCount": 1, "type": "unit"});
    json!({"summary": "Done.", "testsCreated": paths.iter().map(test).collect::<Vec<_>>(), "coverage": 50})
}

/// Runs an agent on a model that makes calls and then returns these results one after the other.
fn run(name: &str, agent: &str, calls: Step, results: &[&Value]) -> (CommandOutput, Project, ScriptedServer) {
    let submits = results.iter().map(|result| Step::tool("submit_result", (*result).clone()));
    let server = ScriptedServer::start(std::iter::once(calls).chain(submits).collect::<Vec<_>>());
    let project = project(name, &server);
    let ran = project.run(&["run", agent, "-p", "Work on the totals"]);
    (ran, project, server)
}

/// Checks that `wrong` is refused with these messages, and that `right` is accepted.
#[track_caller]
fn assert_corrected(
    name: &str,
    agent: &str,
    calls: Step,
    wrong: &Value,
    right: &Value,
    messages: &[&str],
) -> Project {
    let (ran, project, server) = run(name, agent, calls, &[wrong, right]);
    assert_eq!((ran.status, ran.json()), (0, right.clone()), "{name}: {}", ran.all());
    let correction = server.requests()[2].prompt();
    for message in messages {
        assert!(correction.contains(message), "{name}: {correction}");
    }
    project
}

fn edit() -> Step {
    Step::tool(
        "fs_edit",
        json!({"path": "src/total.py", "old_text": "sum(lines)", "new_text": "round(sum(lines))"}),
    )
}

#[test]
fn implementer_deletes_and_moves_files_and_reports_it() {
    let calls = edit()
        .and_tool("fs_write", json!({"path": "src/rounding.py", "content": "DIGITS = 2\n"}))
        .and_tool("fs_delete", json!({"path": "src/legacy.py"}))
        .and_tool("fs_move", json!({"from": "src/names.py", "to": "src/shop/names.py"}));
    let wrong = report(&[
        ("src/total.py", "created"),
        ("src/rounding.py", "modified"),
        ("src/shop/names.py", "created"),
        ("src/invoice.py", "modified"),
    ]);
    let right = report(&[
        ("src/total.py", "modified"),
        ("./src/rounding.py", "created"),
        ("src/legacy.py", "deleted"),
        ("src/names.py", "deleted"),
        ("src/shop/names.py", "created"),
    ]);
    let messages = [
        "$.filesModified[3].path: 'src/invoice.py' was not changed: no tool wrote to it",
        "$.filesModified[0].action: must be 'modified', not 'created': 'src/total.py' existed before this run",
        "$.filesModified[1].action: must be 'created', not 'modified': 'src/rounding.py' did not exist before this run",
        "$.filesModified: lacks 'src/legacy.py', which was deleted in this run",
        "$.filesModified: lacks 'src/names.py', which was deleted in this run",
    ];
    let project = assert_corrected("all", "implementer", calls, &wrong, &right, &messages);
    assert!(!project.folder.join("src/legacy.py").exists() && !project.folder.join("src/names.py").exists());
    assert_eq!(fs::read_to_string(project.folder.join("src/shop/names.py")).unwrap(), "NAMES = []\n");
}

#[test]
fn implementer_cannot_claim_a_deletion() {
    let wrong = report(&[("src/total.py", "modified"), ("src/legacy.py", "deleted")]);
    let right = report(&[("src/total.py", "modified")]);
    let messages = ["$.filesModified[1].path: 'src/legacy.py' was not changed: no tool wrote to it"];
    assert_corrected("claimed-deletion", "implementer", edit(), &wrong, &right, &messages);
    let wrong = report(&[("src/total.py", "deleted")]);
    let messages = ["must be 'modified', not 'deleted': 'src/total.py' still exists"];
    assert_corrected("wrong-deletion", "implementer", edit(), &wrong, &right, &messages);
}

#[test]
fn implementer_that_keeps_hiding_a_change_fails() {
    let hidden = report(&[]);
    let (ran, _, _) = run("hidden", "implementer", edit(), &[&hidden, &hidden, &hidden, &hidden]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{}", ran.all());
    assert!(ran.stderr.contains("Output did not report the files as they were changed"), "{}", ran.stderr);
    assert!(ran.stderr.contains("lacks 'src/total.py', which was modified in this run"), "{}", ran.stderr);
}

#[test]
fn tester_reports_every_file_that_it_wrote_and_no_other() {
    let write = |path: &str| json!({"path": path, "content": "def test():\n    assert True\n"});
    let calls = || {
        Step::tool("fs_write", write("tests/test_total.py")).and_tool("fs_write", write("tests/helpers.py"))
    };
    let right = tests_report(&["tests/test_total.py", "tests/helpers.py"]);
    let omitted = tests_report(&["tests/test_total.py"]);
    let messages = ["$.testsCreated: lacks 'tests/helpers.py', which was created in this run"];
    assert_corrected("tester-omits", "tester", calls(), &omitted, &right, &messages);
    let invented = tests_report(&["tests/test_total.py", "tests/helpers.py", "tests/test_names.py"]);
    let messages = ["$.testsCreated[2].path: 'tests/test_names.py' was not changed: no tool wrote to it"];
    assert_corrected("tester-invents", "tester", calls(), &invented, &right, &messages);
}

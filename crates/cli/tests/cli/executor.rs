//! External executors (`kind = "command"`): runs `examples/executor`, whose adapter calls a coding agent's command.

use std::fs;
use std::path::Path;

use crate::support::Project;
use serde_json::{Value, json};

/// Copies the example to a separate folder, since its stand-in agent writes session files.
fn project(name: &str) -> Project {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/executor");
    ["adapter.py", "standin.py", "slipform.toml", "agents/reviewer.yaml"].iter().fold(
        Project::new(name),
        |project, file| {
            let text = fs::read_to_string(example.join(file)).unwrap();
            project.file(file, &text)
        },
    )
}

#[test]
fn executor_is_resumed_until_its_result_is_valid() {
    let project = project("executor");
    let ran = project.run(&["run", "reviewer", "-p", "Review the last change", "--receipt"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let run = ran.json();
    let issue = json!({"file": "src/retry.rs", "severity": "high", "message": "no upper bound on retries"});
    // Only the first call contains the task; the second resumes the session.
    assert_eq!(run["result"], json!({"task": "Review the last change", "issues": [issue]}));
    assert_eq!((&run["receipt"]["calls"], &run["receipt"]["retries"]), (&json!(2), &json!(1)));
    assert!(ran.stderr.contains("no JSON output found"), "{}", ran.stderr);

    let sessions: Vec<_> =
        fs::read_dir(project.folder.join(".sessions")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(sessions.len(), 1, "one session, started and resumed: {sessions:?}");
    let prompts: Vec<String> = serde_json::from_str(&fs::read_to_string(&sessions[0]).unwrap()).unwrap();
    let [first, second] = &prompts[..] else { panic!("{prompts:?}") };
    assert!(first.starts_with("You review changes."), "{first}");
    assert!(first.contains("## Required Output Format"), "{first}");
    assert!(first.ends_with("Review the last change"), "{first}");
    assert!(second.starts_with("<output-validation-error>"), "{second}");
}

#[test]
fn failed_executor_exits_with_status_3() {
    for (arguments, expected) in [
        (json!(["sh", "-c", "echo no credit >&2; exit 9"]), "sh ended with status 9"),
        (
            json!(["echo", "{\"is_error\": true, \"result\": \"no credit\", \"session_id\": \"1\"}"]),
            "no credit",
        ),
    ] {
        let command: Vec<Value> = [json!("python3"), json!("adapter.py")]
            .into_iter()
            .chain(arguments.as_array().unwrap().clone())
            .collect();
        let settings = format!(
            "[backends.coding-agent]\nkind = \"command\"\nretries = 0\ncommand = {}\n",
            Value::Array(command)
        );
        let project = project("executor-fails").file("slipform.toml", &settings);
        let ran = project.run(&["run", "reviewer", "-p", "Review the last change"]);
        assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

//! Values of variables stay where they are used.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use formwork_testkit::{ScriptedServer, Step};
use serde_json::json;
use support::Project;

const SECRET: &str = "sk-test-0123456789abcdef";

#[test]
fn a_key_in_a_command_reaches_its_program_and_nothing_else() {
    let agent = r#"
name: caller
type: procedural
env: [SERVICE_TOKEN]
parameters_as: placeholders
command: [sh, -c, 'test "$1" = "$SERVICE_TOKEN" && echo "used $1" >&2 && exit 3', sh, "${env.SERVICE_TOKEN}"]
"#;
    let project =
        Project::new("secret-command").file("agents/caller.yaml", agent).variable("SERVICE_TOKEN", SECRET);
    let ran = project.run(&["run", "caller", "-p", "x", "--json"]);
    // It was given the key, which is why it failed in the way it does.
    assert_eq!(ran.json()["error"]["type"], "tool_failed", "{}", ran.all());
    assert!(ran.stderr.contains("exit status: 3"), "{}", ran.stderr);
    assert!(!ran.all().contains(SECRET), "{}", ran.all());
}

#[test]
fn an_agent_cannot_give_itself_programs() {
    let write = |path: &str| {
        let content = "name: counter\ntype: procedural\ncommand: [sh, -c, 'echo \"{}\"']\n";
        Step::tool("fs_write", json!({"path": path, "content": content}))
    };
    let server = ScriptedServer::start([
        write("agents/counter.yaml"),
        write("formwork.toml"),
        write("notes.txt"),
        Step::tool("start_agent_session", json!({"agent_name": "counter", "prompt": "count"})),
        Step::text("I am the counter of the file."),
        Step::text("Done."),
    ]);
    let project = Project::new("escalation")
        .backend(&server.base_url())
        .file("agents/writer.yaml", "name: writer\ntools: [fs:write]\nagents: [counter]\n")
        .file("agents/counter.yaml", "name: counter\n");
    let ran = project.run(&["run", "writer", "-p", "go"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Done.\n"), "{}", ran.stderr);
    let refused = "says which programs and keys agents may use";
    assert_eq!(ran.stderr.matches(refused).count(), 2, "{}", ran.stderr);
    let kept = std::fs::read_to_string(project.folder.join("agents/counter.yaml")).unwrap();
    assert_eq!(kept, "name: counter\n");
    assert!(project.folder.join("notes.txt").is_file());
}

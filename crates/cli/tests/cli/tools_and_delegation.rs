//! Agents that delegate to other agents, call tools and run programs.

use crate::support::Project;
use serde_json::json;
use slipform_testkit::{ScriptedServer, Step};

/// The chain of agents is longer than the number of slots, so it would deadlock if a waiting run kept its slot.
#[test]
fn parked_run_holds_no_slot() {
    let names = ["a", "b", "c", "d", "e"];
    let starts = names[1..].iter().map(|name| {
        Step::tool("start_agent_session", json!({"agent_name": name, "prompt": format!("go on, {name}")}))
    });
    let answers = names.iter().rev().map(|name| Step::text(format!("said by {name}")));
    let server = ScriptedServer::start(starts.chain(answers).collect::<Vec<_>>());
    let project =
        names.windows(2).fold(Project::new("parked").backend(&server.base_url()), |project, pair| {
            project.file(
                &format!("agents/{}.yaml", pair[0]),
                &format!("name: {}\nagents: [{}]\n", pair[0], pair[1]),
            )
        });
    let project = project.file("agents/e.yaml", "name: e\n");
    let ran = project.run(&["run", "a", "-p", "go on"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "said by a\n"), "{}", ran.stderr);
    // Each parent received the reply of its child.
    for (parent, request) in server.requests()[5..].iter().enumerate() {
        let child = names[names.len() - 1 - parent];
        let messages = request.body["messages"].as_array().unwrap();
        assert_eq!(messages.last().unwrap()["content"], format!("said by {child}"));
    }
}

/// A program receives only the variables that its agent's file names, and its parameters without shell expansion.
#[test]
fn program_gets_no_shell_and_only_named_variables() {
    let program = r#"printf '{"named": "%s", "other": "%s", "home": "%s", "given": "%s"}' "$NAMED" "$OTHER" "$HOME" "$2""#;
    let agent = format!(
        "name: sees\ntype: procedural\nenv: [NAMED]\ncommand: [sh, -c, '{}', sh]\n",
        program.replace('\'', "''")
    );
    let project = Project::new("program")
        .file("agents/sees.yaml", &agent)
        .variable("NAMED", "this")
        .variable("OTHER", "not this");
    let prompt = "$(id); `id` && rm x | cat > y";
    let ran = project.run(&["run", "sees", "-p", prompt]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.json(), json!({"named": "this", "other": "", "home": "", "given": prompt}));
}

/// A schema name from a model is looked up only in the registry, never as a path.
#[test]
fn schema_named_by_model_must_be_registered() {
    let outside = Project::new("outside").file("secret.json", r#"{"title": "not for models"}"#);
    let path = outside.folder.join("secret.json");
    let start = |name: &str| {
        let arguments = json!({"agent_name": "child", "prompt": "go", "output_schema_name": name});
        Step::tool("start_agent_session", arguments)
    };
    let server = ScriptedServer::start([
        start(path.to_str().unwrap()),
        start("../outside/secret"),
        start("counts"),
        Step::json(&json!({"count": 3})),
        Step::text("Three."),
    ]);
    let project = Project::new("registry")
        .backend(&server.base_url())
        .file("agents/parent.yaml", "name: parent\nagents: [child]\n")
        .file("agents/child.yaml", "name: child\n")
        .file(
            "schemas/counts.json",
            r#"{"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}"#,
        );
    let ran = project.run(&["run", "parent", "-p", "count"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Three.\n"), "{}", ran.stderr);
    let prompts: Vec<String> = server.requests().iter().map(|request| request.prompt()).collect();
    assert_eq!(prompts[2].matches("there is no schema").count(), 2, "{}", prompts[2]);
    assert!(prompts[4].contains("\"count\": 3"), "{}", prompts[4]);
    assert!(prompts.iter().all(|text| !text.contains("not for models")));
}

#[test]
fn unknown_tools_and_agents_are_errors_in_validate_and_run() {
    let project = Project::new("missing")
        .file(
            "agents/a.yaml",
            "name: a\ntools: [fs:read, fs:nothing, docs:search]\nagents: [absent, researcher]\n",
        )
        .file("agents/b.yaml", "name: b\ncites: [\"$.a[0]\"]\n")
        .file("agents/c.yaml", "name: c\ntools: [fs:read]\nopening: [{tool: fs:list}]\n");
    let checked = project.run(&["agents", "validate", "agents/a.yaml"]);
    assert_eq!(checked.status, 2, "{}", checked.all());
    for problem in [
        "agents/a.yaml: line 2: $.tools[1]: tool `fs:nothing` not found",
        "agents/a.yaml: line 2: $.tools[2]: tool `docs:search` not found",
        "agents/a.yaml: line 3: $.agents[0]: agent `absent` not found",
    ] {
        assert!(checked.stderr.contains(problem), "{problem} is not in {}", checked.stderr);
    }
    assert!(!checked.stderr.contains("`researcher`"), "{}", checked.stderr);
    for (file, expected) in
        [("b", "$.cites[0]"), ("c", "$.opening[0].tool: 'fs:list' is not one of the agent's tools")]
    {
        let checked = project.run(&["agents", "validate", &format!("agents/{file}.yaml")]);
        assert_eq!(checked.status, 2, "{}", checked.all());
        assert!(checked.stderr.contains(expected), "{}", checked.stderr);
    }
    let ran = project.run(&["run", "a", "-p", "x"]);
    assert_eq!(ran.status, 2, "{}", ran.all());
    assert!(
        ran.stderr.contains("tools[1]: tool `fs:nothing` not found; available: fs:read"),
        "{}",
        ran.stderr
    );
}

#[test]
fn started_child_is_reported_on_stderr() {
    let server = ScriptedServer::start([
        Step::tool("start_agent_session", json!({"agent_name": "child", "prompt": "go", "mode": "callback"})),
        Step::text("Started it."),
        Step::text("It is done."),
        Step::text("So it is."),
    ]);
    let project = Project::new("child-progress")
        .backend(&server.base_url())
        .file("agents/parent.yaml", "name: parent\nagents: [child]\n")
        .file("agents/child.yaml", "name: child\n");
    let ran = project.run(&["run", "parent", "-p", "go", "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.all());
    let run = ran.json();
    assert_eq!((&run["type"], run["children"].as_array().map(Vec::len)), (&json!("resume_session"), Some(1)));
    assert!(ran.stderr.contains("parent: child `child` started (ses_"), "{}", ran.stderr);
}

/// A full or closed stderr must not fail the run.
#[test]
fn run_completes_when_stderr_is_full() {
    let server = ScriptedServer::start([
        Step::tool("fs_read", json!({"path": "no\u{1b}[31mthing"})),
        Step::tool("fs_read", json!({"path": "nothing"})),
        Step::text("Done."),
    ]);
    let project = Project::new("full-stderr")
        .backend(&server.base_url())
        .file("agents/reader.yaml", "name: reader\ntools: [fs:read]\n");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_slipform"))
        .args(["run", "reader", "-p", "x"])
        .current_dir(&project.folder)
        .stderr(full)
        .output()
        .unwrap();
    assert_eq!((ran.status.code(), String::from_utf8_lossy(&ran.stdout).as_ref()), (Some(0), "Done.\n"));
}

#[test]
fn escape_sequences_in_progress_lines_are_printed_escaped() {
    let server = ScriptedServer::start([
        Step::tool("fs_read", json!({"path": "no\u{1b}[31mthing\u{7}"})),
        Step::tool("fs\u{1b}[2J", json!({})),
        Step::text("Done."),
    ]);
    let project = Project::new("commands")
        .backend(&server.base_url())
        .file("agents/reader.yaml", "name: reader\ntools: [fs:read]\n");
    let ran = project.run(&["run", "reader", "-p", "x"]);
    assert_eq!(ran.status, 0, "{}", ran.all());
    assert!(
        ran.stderr.contains("does not exist") && !ran.stderr.contains(['\u{1b}', '\u{7}']),
        "{:?}",
        ran.stderr
    );
}

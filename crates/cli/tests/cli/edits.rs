//! Concurrent edits of one file by several agents are all applied, and writes over a changed file are refused.

use std::fs;

use crate::support::{Project, request, serve};
use serde_json::{Value, json};
use slipform_testkit::{Recorded, ScriptedServer, Step};

/// Edits that each of the two agents makes.
const EDITS: usize = 30;

/// Counts the tool results in a request.
fn tool_results(request: &Recorded) -> usize {
    let messages = request.body["messages"].as_array().unwrap();
    messages.iter().filter(|message| message["role"] == "tool").count()
}

#[test]
fn concurrent_edits_of_one_file_are_all_applied() {
    let model = ScriptedServer::respond(|request, _| {
        let name = if request.prompt().contains("agent a") { "a" } else { "b" };
        match tool_results(request) {
            EDITS.. => Step::text("Done."),
            done => Step::tool(
                "fs_edit",
                json!({"path": "list.txt", "old_text": format!("{name}{done:02} open"), "new_text": format!("{name}{done:02} done")}),
            ),
        }
    });
    let lines: String = (0..EDITS).map(|line| format!("a{line:02} open\nb{line:02} open\n")).collect();
    let limits = "limits: {max_steps: 50, max_tool_calls: 100}\n";
    let project = Project::new("edits")
        .backend(&model.base_url())
        .file("agents/editor.yaml", &format!("name: editor\ntools: [fs:edit]\n{limits}"))
        .file("list.txt", &lines);
    let (_server, address) = serve(&project, &[]);
    let submit = |name: &str| {
        let body = json!({"type": "start_session", "agent_name": "editor", "prompt": format!("You are agent {name}.")});
        request(&address, "POST", "/runs?wait=120", None, &body)
    };
    std::thread::scope(|scope| {
        let both = ["a", "b"].map(|name| scope.spawn(move || submit(name)));
        for thread in both {
            let (_, run) = thread.join().unwrap();
            assert_eq!(run["status"], "completed", "{run}");
        }
    });
    let text = fs::read_to_string(project.folder.join("list.txt")).unwrap();
    assert_eq!(text.matches("done").count(), 2 * EDITS, "{text}");
}

#[test]
fn read_after_write_in_one_reply_sees_the_write() {
    let model = ScriptedServer::start([
        Step::tool("fs_read", json!({"path": "notes.txt"}))
            .and_tool("fs_write", json!({"path": "notes.txt", "content": "second\n"}))
            .and_tool("fs_read", json!({"path": "notes.txt"}))
            .and_tool("fs_edit", json!({"path": "notes.txt", "old_text": "second", "new_text": "third"}))
            .and_tool("fs_search", json!({"pattern": "third"}))
            .and_tool("fs_read", json!({"path": "notes.txt"})),
        Step::text("Done."),
    ]);
    let project = Project::new("read-after-write")
        .backend(&model.base_url())
        .file("agents/editor.yaml", "name: editor\ntools: [fs:read, fs:write, fs:edit, fs:search]\n")
        .file("notes.txt", "first\n");
    let ran = project.run(&["run", "editor", "-p", "go"]);
    assert_eq!(ran.status, 0, "{}", ran.all());
    let messages = model.requests()[1].body["messages"].clone();
    let tool_outputs: Vec<Value> = messages
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| serde_json::from_str(message["content"].as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(tool_outputs[0]["content"], "first\n", "{tool_outputs:?}");
    assert_eq!(tool_outputs[2]["content"], "second\n", "{tool_outputs:?}");
    assert_eq!(tool_outputs[4]["matches"][0]["text"], "third", "{tool_outputs:?}");
    assert_eq!(tool_outputs[5]["content"], "third\n", "{tool_outputs:?}");
}

#[test]
fn write_over_file_changed_since_read_is_refused() {
    let folder = Project::new("stale-write").folder;
    let path = folder.join("notes.txt");
    let changed = path.clone();
    let model = ScriptedServer::respond(move |request, number| match number {
        0 => Step::tool("fs_read", json!({"path": "notes.txt"})),
        1 => {
            fs::write(&changed, "another agent's work\n").unwrap();
            Step::tool("fs_write", json!({"path": "notes.txt", "content": "mine\n"}))
        }
        2 => {
            assert!(request.prompt().contains("has changed since"), "{}", request.prompt());
            Step::tool("fs_read", json!({"path": "notes.txt"}))
        }
        3 => Step::tool("fs_write", json!({"path": "notes.txt", "content": "both\n"})),
        _ => Step::text("Done."),
    });
    let project = Project::new("stale-write")
        .backend(&model.base_url())
        .file("agents/editor.yaml", "name: editor\ntools: [fs:read, fs:write]\n")
        .file("notes.txt", "first\n");
    let ran = project.run(&["run", "editor", "-p", "go"]);
    assert_eq!(ran.status, 0, "{}", ran.all());
    assert!(ran.stderr.contains("has changed since"), "{}", ran.all());
    assert_eq!(fs::read_to_string(path).unwrap(), "both\n");
}

/// Two servers of one project edit the same file: `flock` keeps their processes apart.
#[test]
fn edits_of_one_file_by_two_processes_at_once_are_all_kept() {
    let model = ScriptedServer::respond(|request, _| {
        let prompt = request.prompt();
        let name = prompt.split("agent ").nth(1).unwrap().chars().next().unwrap();
        match tool_results(request) {
            EDITS.. => Step::text("Done."),
            done => Step::tool(
                "fs_edit",
                json!({"path": "list.txt", "old_text": format!("{name}{done:02} open"), "new_text": format!("{name}{done:02} done")}),
            ),
        }
    });
    let names = ["a", "b", "c", "d"];
    let lines: String =
        (0..EDITS).flat_map(|line| names.map(|name| format!("{name}{line:02} open\n"))).collect();
    let limits = "limits: {max_steps: 50, max_tool_calls: 100}\n";
    let project = Project::new("edits-processes")
        .backend(&model.base_url())
        .file("agents/editor.yaml", &format!("name: editor\ntools: [fs:edit]\n{limits}"))
        .file("list.txt", &lines);
    let servers = [serve(&project, &[]), serve(&project, &["--db", "other.db"])];
    std::thread::scope(|scope| {
        let all: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let address = servers[index % 2].1.clone();
                scope.spawn(move || {
                    let body = json!({"type": "start_session", "agent_name": "editor", "prompt": format!("You are agent {name}.")});
                    request(&address, "POST", "/runs?wait=120", None, &body)
                })
            })
            .collect();
        for thread in all {
            let (_, run) = thread.join().unwrap();
            assert_eq!(run["status"], "completed", "{run}");
        }
    });
    let text = fs::read_to_string(project.folder.join("list.txt")).unwrap();
    assert_eq!(text.matches("done").count(), names.len() * EDITS, "{text}");
}

#[test]
fn child_started_after_a_write_in_one_reply_sees_what_was_written() {
    let model = ScriptedServer::respond(|request, _| {
        let is_child = request.prompt().contains("You read.");
        match (is_child, tool_results(request)) {
            (true, 0) => Step::tool("fs_read", json!({"path": "notes.txt"})),
            (true, _) => Step::text(if request.prompt().contains("second") { "second" } else { "first" }),
            (false, 0) => Step::tool("fs_write", json!({"path": "notes.txt", "content": "second\n"}))
                .and_tool("start_agent_session", json!({"agent_name": "reader", "prompt": "read"})),
            (false, _) => {
                Step::text(if request.prompt().contains("first") { "It read first." } else { "Fine." })
            }
        }
    });
    let project = Project::new("child-after-write")
        .backend(&model.base_url())
        .file("agents/editor.yaml", "name: editor\ntools: [fs:write]\nagents: [reader]\n")
        .file("agents/reader.yaml", "name: reader\nsystem_prompt: You read.\ntools: [fs:read]\n")
        .file("notes.txt", "first\n");
    let ran = project.run(&["run", "editor", "-p", "go"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Fine.\n"), "{}", ran.all());
}

//! Child agents: callbacks to the parent, and interruption of their programs.

use std::io::Read as _;
use std::process::Command;

use crate::support::Project;
use serde_json::{Value, json};
use slipform_testkit::{Recorded, ScriptedServer, Step};

const PARENT: &str = "name: parent\nsystem_prompt: You lead.\nagents: [helper, scanner]\n";
const HELPER: &str = "name: helper\nsystem_prompt: You help.\n";

fn project(name: &str, server: &ScriptedServer, scanner: &str) -> Project {
    Project::new(name)
        .backend(&server.base_url())
        .file("agents/parent.yaml", PARENT)
        .file("agents/helper.yaml", HELPER)
        .file("agents/scanner.yaml", scanner)
}

/// Returns the last message of a request.
fn last_message(request: &Recorded) -> Value {
    request.body["messages"].as_array().unwrap().last().unwrap().clone()
}

#[test]
fn run_prints_the_answer_to_its_callback() {
    let server = ScriptedServer::respond(|request, _| {
        let (is_helper, last) = (request.prompt().starts_with("You help."), last_message(request));
        let content = last["content"].as_str().unwrap();
        match (is_helper, last["role"].as_str().unwrap()) {
            (true, _) => Step::text("It is red."),
            (false, "user") if content.starts_with("<agent-callback session=\"ses_") => {
                Step::text(content.lines().nth(3).unwrap())
            }
            (false, "user") => Step::tool(
                "start_agent_session",
                json!({"agent_name": "helper", "prompt": "Which colour?", "mode": "callback"}),
            ),
            (false, _) => Step::text("Somebody is looking."),
        }
    });
    let scanner = "name: scanner\ntype: procedural\ncommand: ['true']\n";
    let ran = project("callback", &server, scanner).run(&["run", "parent", "-p", "Which colour is it?"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "It is red.\n"), "{}", ran.stderr);
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn null_of_a_child_reaches_its_parent_and_the_caller() {
    let server = ScriptedServer::respond(|request, _| {
        let last = last_message(request);
        match (request.prompt().starts_with("You help."), last["role"].as_str().unwrap()) {
            (true, _) => Step::text("null"),
            (false, "tool") => Step::text(format!("The helper said {}.", last["content"].as_str().unwrap())),
            (false, _) => {
                Step::tool("start_agent_session", json!({"agent_name": "helper", "prompt": "Any?"}))
            }
        }
    });
    let scanner = "name: scanner\ntype: procedural\ncommand: ['true']\n";
    let helper = "name: helper\nsystem_prompt: You help.\noutput_schema: {type: [string, 'null']}\n";
    let project = project("null", &server, scanner).file("agents/helper.yaml", helper);
    let ran = project.run(&["run", "parent", "-p", "Is there any?"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "The helper said null.\n"), "{}", ran.stderr);
    let ran = project.run(&["run", "helper", "-p", "Any?"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "null\n"), "{}", ran.stderr);
}

#[test]
fn interrupt_ends_the_process_tree_of_a_child() {
    let server = ScriptedServer::start([Step::tool(
        "start_agent_session",
        json!({"agent_name": "scanner", "prompt": "x"}),
    )]);
    let scanner = "name: scanner\ntype: procedural\ncommand: [sh, -c, 'sleep 1000 > held & wait']\n";
    let project = project("interrupted-child", &server, scanner);
    let held = project.folder.join("held");
    assert!(Command::new("mkfifo").arg(&held).status().unwrap().success());
    let child = project.command(&["run", "parent", "-p", "Go.", "--json"]).spawn().unwrap();
    // Opening the pipe blocks until the grandchild process exists; reading it ends when that process has ended.
    let mut pipe = std::fs::File::open(held).unwrap();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&run["status"], &run["error"]["type"]), (&json!("stopped"), &json!("stopped")));
    pipe.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn agent_reads_files_of_its_project() {
    let server =
        ScriptedServer::respond(|request, _| match last_message(request)["role"].as_str().unwrap() {
            "tool" => {
                let read: Value =
                    serde_json::from_str(last_message(request)["content"].as_str().unwrap()).unwrap();
                Step::tool("submit_result", json!({"colour": read["content"]}))
            }
            _ => Step::tool("fs_read", json!({"path": "paint.txt"})),
        });
    let reader = "name: reader\ntools: [fs:read]\noutput_schema: {type: object, required: [colour]}\n";
    let project = Project::new("reading")
        .backend(&server.base_url())
        .file("agents/reader.yaml", reader)
        .file("paint.txt", "red");
    let ran = project.run(&["run", "reader", "-p", "Which colour?"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.json(), json!({"colour": "red"}));
}

//! Agents and those who work for them, from the command line: callbacks, programs, and an end to all of them.

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

/// The last thing that was said to the model.
fn last(request: &Recorded) -> Value {
    request.body["messages"].as_array().unwrap().last().unwrap().clone()
}

#[test]
fn a_callback_leads_to_the_answer_that_is_printed() {
    let server = ScriptedServer::respond(|request, _| {
        let (is_helper, last) = (request.prompt().starts_with("You help."), last(request));
        let said = last["content"].as_str().unwrap();
        match (is_helper, last["role"].as_str().unwrap()) {
            (true, _) => Step::text("It is red."),
            (false, "user") if said.starts_with("<agent-callback session=\"ses_") => {
                Step::text(said.lines().nth(3).unwrap())
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
fn an_interrupt_ends_the_program_of_a_child_and_all_that_it_started() {
    let server = ScriptedServer::start([Step::tool(
        "start_agent_session",
        json!({"agent_name": "scanner", "prompt": "x"}),
    )]);
    let scanner = "name: scanner\ntype: procedural\ncommand: [sh, -c, 'sleep 1000 > held & wait']\n";
    let project = project("interrupted-family", &server, scanner);
    let held = project.folder.join("held");
    assert!(Command::new("mkfifo").arg(&held).status().unwrap().success());
    let child = project.command(&["run", "parent", "-p", "Go.", "--json"]).spawn().unwrap();
    // Opening waits until the program of the program is there; reading ends when it is gone.
    let mut pipe = std::fs::File::open(held).unwrap();
    let number = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &number]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&run["status"], &run["error"]["type"]), (&json!("stopped"), &json!("stopped")));
    pipe.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn an_agent_with_tools_reads_the_project_it_is_started_in() {
    let server = ScriptedServer::respond(|request, _| match last(request)["role"].as_str().unwrap() {
        "tool" => {
            let read: Value = serde_json::from_str(last(request)["content"].as_str().unwrap()).unwrap();
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

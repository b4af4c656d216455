//! `slipform stats`, and the files beside it, from outside.

use std::fs;
use std::process::Command;

use crate::support::{Project, REVIEWER, serve};
use serde_json::{Value, json};
use slipform_testkit::{ScriptedServer, Step};

const GOOD: &str = r#"{"summary": "Fine.", "severity": "low"}"#;
const BAD: &str = r#"{"summary": "Fine.", "severity": "critical"}"#;

fn project(name: &str, server: &ScriptedServer) -> Project {
    Project::new(name).backend(&server.base_url()).file("agents/reviewer.yaml", REVIEWER)
}

/// The types of all lines for those who count, in order.
fn lines(project: &Project) -> Vec<String> {
    let Ok(entries) = fs::read_dir(project.folder.join(".slipform/analytics")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension() == Some("jsonl".as_ref())).collect();
    paths.sort();
    let text: String = paths.into_iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let kind = |line: &str| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned();
    text.lines().map(kind).collect()
}

#[test]
fn without_runs_there_is_a_word_of_how_to_come_by_some() {
    let project = Project::new("stats-none");
    let ran = project.run(&["stats"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, ""), "{}", ran.all());
    assert!(ran.stderr.starts_with("no run has ended yet; `slipform run AGENT"), "{}", ran.all());
    let ran = project.run(&["stats", "--agent", "writer"]);
    assert!(ran.stderr.starts_with("no run of 'writer' has ended yet"), "{}", ran.all());
    assert_eq!(project.run(&["stats", "--json"]).json(), json!([]));
}

#[test]
fn figures_are_the_same_here_and_at_a_coordinator() {
    let model =
        ScriptedServer::start([Step::text(BAD), Step::text(GOOD), Step::text(GOOD), Step::text(GOOD)]);
    let project = project("stats-figures", &model);
    for _ in 0..2 {
        assert_eq!(project.run(&["run", "reviewer", "-p", "x"]).status, 0);
    }
    let ended = "orchestrator.specialist.completed";
    assert_eq!(lines(&project), ["agent.validation.failed", ended, ended]);
    let ran = project.run(&["stats"]);
    let rows: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 2, "{}", ran.all());
    let figures = ["reviewer", "scripted", "2", "100.0", "%", "50.0", "%", "1", "0", "0"];
    assert_eq!(rows[1][..figures.len()], figures, "{}", ran.all());

    let (server, address) = serve(&project, &[]);
    assert_eq!(project.run(&["run", "reviewer", "-p", "x", "--server", &address]).status, 0);
    let here = project.run(&["stats", "--json"]).json();
    let there = Project::new("stats-elsewhere");
    assert_eq!(there.run(&["stats", "--json", "--agent", "reviewer", "--server", &address]).json(), here);
    assert_eq!((&here[0]["runs"], &here[0]["retries"]), (&json!(3), &json!(1)));
    drop(server);
    assert_eq!(lines(&project), ["agent.validation.failed", ended, ended, ended]);
    assert!(lines(&there).is_empty());
}

#[test]
fn a_server_that_goes_down_leaves_nothing_unwritten() {
    let project = Project::new("stats-down").file("agents/reviewer.yaml", REVIEWER);
    let (mut server, address) = serve(&project, &["--no-runner"]);
    // Nobody works on it, so that it ends as soon as somebody stops it.
    let mut waiting = project.command(&["run", "reviewer", "-p", "x", "--server", &address]).spawn().unwrap();
    let run = loop {
        let runs = project.run(&["runs", "list", "--json", "--server", &address]).json();
        if let Some(run) = runs["runs"][0]["run_id"].as_str() {
            break run.to_owned();
        }
    };
    assert_eq!(project.run(&["runs", "stop", &run, "--server", &address]).status, 0);
    let killed = Command::new("kill").args(["-TERM", &server.0.id().to_string()]).status().unwrap();
    assert!(killed.success() && server.0.wait().unwrap().success());
    assert_eq!(lines(&project), ["orchestrator.specialist.completed"]);
    let _ = waiting.kill();
    let _ = waiting.wait();
}

#[test]
fn files_that_nobody_wants_are_not_written() {
    let model = ScriptedServer::start([Step::text(GOOD)]);
    let project = project("stats-off", &model);
    let settings = fs::read_to_string(project.folder.join("slipform.toml")).unwrap();
    let project = project.file("slipform.toml", &format!("{settings}[analytics]\nenabled = false\n"));
    assert_eq!(project.run(&["run", "reviewer", "-p", "x"]).status, 0);
    assert_eq!(project.run(&["stats", "--json"]).json()[0]["runs"], 1);
    assert!(!project.folder.join(".slipform/analytics").exists());
}

#[test]
fn files_that_cannot_be_written_cost_no_run() {
    let model = ScriptedServer::start([Step::text(GOOD)]);
    let project = project("stats-in-the-way", &model)
        .file(".slipform/analytics", "in the way")
        .variable("SLIPFORM_LOG", "warn");
    let ran = project.run(&["run", "reviewer", "-p", "x"]);
    assert_eq!(ran.json(), serde_json::from_str::<Value>(GOOD).unwrap());
    assert_eq!(
        (ran.status, ran.stderr.matches("analytics cannot be written").count()),
        (0, 1),
        "{}",
        ran.all()
    );
}

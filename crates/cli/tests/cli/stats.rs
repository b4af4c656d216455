//! `slipform stats` and the analytics files.

use std::fs;
use std::process::Command;

use crate::support::{Project, REVIEWER, is_local_only, serve};
use serde_json::{Value, json};
use slipform_testkit::{ScriptedServer, Step};

const GOOD: &str = r#"{"summary": "Fine.", "severity": "low"}"#;
const BAD: &str = r#"{"summary": "Fine.", "severity": "critical"}"#;

fn project(name: &str, server: &ScriptedServer) -> Project {
    Project::new(name).backend(&server.base_url()).file("agents/reviewer.yaml", REVIEWER)
}

/// Returns the types of all analytics lines, in order.
fn analytics_types(project: &Project) -> Vec<String> {
    let Ok(entries) = fs::read_dir(project.folder.join(".slipform/analytics")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension() == Some("jsonl".as_ref())).collect();
    paths.sort();
    let text: String = paths.into_iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let kind = |line: &str| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned();
    text.lines().map(kind).collect()
}

#[test]
fn stats_without_runs_suggests_a_command() {
    let project = Project::new("stats-none");
    let ran = project.run(&["stats"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, ""), "{}", ran.all());
    assert!(ran.stderr.starts_with("no finished runs; start one with `slipform run AGENT"), "{}", ran.all());
    let ran = project.run(&["stats", "--agent", "writer"]);
    assert!(ran.stderr.starts_with("no finished runs of agent `writer`"), "{}", ran.all());
    assert_eq!(project.run(&["stats", "--json"]).json(), json!([]));
}

#[test]
fn stats_are_equal_in_process_and_from_coordinator() {
    if is_local_only("the test compares both ways itself") {
        return;
    }
    let model =
        ScriptedServer::start([Step::text(BAD), Step::text(GOOD), Step::text(GOOD), Step::text(GOOD)]);
    let project = project("stats-figures", &model);
    for _ in 0..2 {
        assert_eq!(project.run(&["run", "reviewer", "-p", "x"]).status, 0);
    }
    let ended = "orchestrator.specialist.completed";
    assert_eq!(analytics_types(&project), ["agent.validation.failed", ended, ended]);
    let ran = project.run(&["stats"]);
    let rows: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 2, "{}", ran.all());
    let figures = ["reviewer", "scripted", "m", "2", "100.0", "%", "50.0", "%", "1", "0", "0"];
    assert_eq!(rows[1][..figures.len()], figures, "{}", ran.all());

    let (server, address) = serve(&project, &[]);
    assert_eq!(project.run(&["run", "reviewer", "-p", "x", "--server", &address]).status, 0);
    let local = project.run(&["stats", "--json"]).json();
    let elsewhere = Project::new("stats-elsewhere");
    assert_eq!(
        elsewhere.run(&["stats", "--json", "--agent", "reviewer", "--server", &address]).json(),
        local
    );
    assert_eq!((&local[0]["runs"], &local[0]["retries"]), (&json!(3), &json!(1)));
    drop(server);
    assert_eq!(analytics_types(&project), ["agent.validation.failed", ended, ended, ended]);
    assert!(analytics_types(&elsewhere).is_empty());
}

#[test]
fn terminated_server_writes_pending_analytics() {
    let project = Project::new("stats-down").file("agents/reviewer.yaml", REVIEWER);
    let (mut server, address) = serve(&project, &["--no-runner"]);
    // Without a runner the run stays pending, so it ends as soon as it is stopped.
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
    assert_eq!(analytics_types(&project), ["orchestrator.specialist.completed"]);
    let _ = waiting.kill();
    let _ = waiting.wait();
}

#[test]
fn disabled_analytics_write_no_files() {
    let model = ScriptedServer::start([Step::text(GOOD)]);
    let project = project("stats-off", &model);
    let settings = fs::read_to_string(project.folder.join("slipform.toml")).unwrap();
    let project = project.file("slipform.toml", &format!("{settings}[analytics]\nenabled = false\n"));
    assert_eq!(project.run(&["run", "reviewer", "-p", "x"]).status, 0);
    assert_eq!(project.run(&["stats", "--json"]).json()[0]["runs"], 1);
    assert!(!project.folder.join(".slipform/analytics").exists());
}

#[test]
fn unwritable_analytics_do_not_fail_the_run() {
    if is_local_only("the server logs the warning") {
        return;
    }
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

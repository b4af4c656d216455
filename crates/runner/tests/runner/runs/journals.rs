//! Snapshots of the whole journal of every kind of run, one event per line.

use expect_test::{ExpectFile, expect_file};
use serde_json::{Value, json};
use slipform_runner::StopSignal;
use slipform_testkit::{ScriptedServer, Step};
use slipform_types::{BackendKind, Event, StructuredOutput};

use crate::runs::protocols::{FILES, model, review, reviewing};
use crate::support::contexts::{TestRun, drive_to_end, journal, rung, test_run};
use crate::support::fakes::{FakeTool, command_rung, scripted_rung, silent_rung, with_tools};
use crate::support::fixture::{Fixture, agent, serve_agents};
use crate::support::folder::Folder;
use crate::support::model::{ModelTurn, answers};
use crate::support::outcome::run;
use crate::support::test_coordinator;

/// Compares a journal with its snapshot, session by session. Tools are reduced to name and hash; estimates
/// are omitted because they depend on the machine's paths.
fn check(events: &[Event], expected: ExpectFile) {
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.session_id.clone());
    let mut lines = String::new();
    for event in &events {
        let mut line = serde_json::to_value(event).unwrap();
        for tool in line.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
            *tool = json!({"name": tool["name"], "hash": tool["hash"]});
        }
        if line["reply"]["usage"]["estimated"] == true {
            line["reply"]["usage"] = json!({"estimated": true});
        }
        let is_program = |rung: &Value| rung["backend"] == "executor";
        if line["receipt"]["rungs"].as_array().is_some_and(|rungs| rungs.iter().any(is_program)) {
            line["receipt"]["tokens"] = json!("estimated");
        }
        lines.push_str(&format!("{line}\n"));
    }
    expected.assert_eq(&lines);
}

fn ladder_of(server: &ScriptedServer) -> Vec<slipform_runner::LadderRung> {
    vec![rung("default", BackendKind::OpenAi, server, StructuredOutput::Auto)]
}

#[tokio::test]
async fn journal_of_tool_calls() {
    let (folder, server) = (Folder::with("journal-tools", &FILES), model());
    let (_, journal) = run(&reviewing("tools", &folder, ladder_of(&server))).await;
    check(&journal.events(), expect_file!["../../journals/tools.jsonl"]);
}

#[tokio::test]
async fn journal_of_actions() {
    let (folder, server) = (Folder::with("journal-actions", &FILES), model());
    let (_, journal) = run(&reviewing("actions", &folder, ladder_of(&server))).await;
    check(&journal.events(), expect_file!["../../journals/actions.jsonl"]);
}

#[tokio::test]
async fn journal_of_a_command_executor() {
    let (folder, memory) = (Folder::with("journal-executor", &FILES), Folder::new("journal-memory"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/executors/executor.py");
    let ladder = vec![command_rung("executor", &["python3", script, &memory.path()])];
    let (_, journal) = run(&reviewing("actions", &folder, ladder)).await;
    check(&journal.events(), expect_file!["../../journals/executor.jsonl"]);
}

#[tokio::test]
async fn journal_of_an_escalation() {
    let folder = Folder::with("journal-escalation", &FILES);
    // The small model finds the line but does not submit it.
    let small = ScriptedServer::respond(|request, _| match answers(request).len() {
        0 | 1 => review(request).step(request),
        _ => Step::text("I am not sure."),
    });
    let large = model();
    let ladder = vec![
        rung("small", BackendKind::Completions, &small, StructuredOutput::Auto),
        rung("large", BackendKind::Anthropic, &large, StructuredOutput::Auto),
    ];
    let (_, journal) = run(&reviewing("tools", &folder, ladder)).await;
    check(&journal.events(), expect_file!["../../journals/escalation.jsonl"]);
    // The second backend receives the first one's tool results in its own protocol.
    assert_eq!(answers(&large.requests()[0]).len(), 2);
}

/// Runs a parent with one child and returns all events.
async fn delegated(mode: &'static str) -> Vec<Event> {
    let server = serve_agents(move |name, request| match (name, answers(request).len()) {
        ("parent", 0) => Step::tool(
            "start_agent_session",
            json!({"agent_name": "counter", "prompt": "Count the files.", "mode": mode}),
        ),
        ("parent", _) if request.prompt().contains("<agent-callback") => Step::text("Three, it says."),
        ("parent", _) => Step::text("Done."),
        _ => Step::text("{\"files\": 3}"),
    });
    let schema = json!({"type": "object", "properties": {"files": {"type": "integer"}}});
    let agents =
        [agent("parent", &["counter"], json!({})), agent("counter", &[], json!({"output_schema": schema}))];
    test_coordinator::run_tree(&Fixture::new(&agents, &server), "parent", "How many files?").await.events
}

#[tokio::test]
async fn journals_of_delegations() {
    check(&delegated("sync").await, expect_file!["../../journals/delegation_sync.jsonl"]);
    check(&delegated("callback").await, expect_file!["../../journals/delegation_callback.jsonl"]);
}

#[tokio::test]
async fn journal_of_a_procedural_agent() {
    let folder =
        Folder::with("journal-procedural", &[("scan.sh", "echo '{\"found\": 2}'; echo looking >&2")]);
    let agent = json!({
        "name": "scanner", "type": "procedural", "command": ["sh", "scan.sh"], "env": ["REGION"],
        "output_schema": {"type": "object", "required": ["found"]},
    });
    let context = test_run(&agent, "", json!({}), Vec::new());
    let context = TestRun {
        parameters: json!({"path": "src", "deep": true}),
        project_dir: folder.path(),
        environment: vec![("REGION".to_owned(), "here".to_owned())].into(),
        ..context
    };
    let (_, journal) = run(&context).await;
    check(&journal.events(), expect_file!["../../journals/procedural.jsonl"]);
}

fn limited(limits: Value, ladder: Vec<slipform_runner::LadderRung>) -> TestRun {
    let agent = json!({
        "name": "actor", "tools": ["echo"], "limits": limits,
        "output_schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}},
    });
    with_tools(test_run(&agent, "Act.", json!({}), ladder), &[FakeTool::echo("echo")])
}

#[tokio::test]
async fn journals_of_exceeded_limits() {
    let restless = || {
        ScriptedServer::respond(|request, index| ModelTurn::call("echo", json!({"n": index})).step(request))
    };
    let server = restless();
    let (_, journal) = run(&limited(json!({"max_steps": 2}), ladder_of(&server))).await;
    check(&journal.events(), expect_file!["../../journals/max_steps.jsonl"]);

    let server = restless();
    let (_, journal) = run(&limited(json!({"max_tool_calls": 1}), ladder_of(&server))).await;
    check(&journal.events(), expect_file!["../../journals/max_tool_calls.jsonl"]);

    let cut = || Step::tool("submit_result", json!({"ok": true})).finish("length");
    let server = ScriptedServer::start([cut(), cut()]);
    let (_, journal) = run(&limited(json!({"max_tokens": 10}), ladder_of(&server))).await;
    check(&journal.events(), expect_file!["../../journals/max_tokens.jsonl"]);
}

#[tokio::test(start_paused = true)]
async fn journal_of_a_timeout() {
    let call = json!({"id": "a", "name": "echo", "arguments": "{}"});
    let calls = scripted_rung(vec![json!({"tool_calls": [call], "stop": {"reason": "tool_calls"}})]);
    let context = limited(json!({"timeout_seconds": 30}), vec![calls]);
    let hangs = FakeTool::new("echo", |_| std::future::pending());
    let (_, journal) = run(&with_tools(context, &[hangs])).await;
    check(&journal.events(), expect_file!["../../journals/timeout.jsonl"]);
}

#[tokio::test]
async fn journal_of_a_stopped_run() {
    let (journal, stop) = (journal(), StopSignal::default());
    let context = limited(json!({}), vec![silent_rung()]);
    let stopping = async { stop.request() };
    let (outcome, ()) = tokio::join!(drive_to_end(&context, &journal, &stop, &()), stopping);
    outcome.unwrap();
    check(&journal.events(), expect_file!["../../journals/stopped.jsonl"]);
}

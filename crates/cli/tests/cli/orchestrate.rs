//! `slipform orchestrate`: a plan, specialists that succeed, fail, stall or cite missing files, and a summary.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{CommandOutput, Project};
use serde_json::{Value, json};
use slipform_testkit::{Gate, Recorded, ScriptedServer, Step};

const COUNTER: &str = "\
name: counter
description: Counts things.
system_prompt: You count.
tools: [fs:list]
cites: ['$.files[*]']
output_schema: {type: object, required: [files], properties: {files: {type: array, items: {type: string}}}}
";
const WRITER: &str = "name: writer\ndescription: Writes.\nsystem_prompt: You write.\n";

/// Creates a project with the agents `counter` and `writer` besides the shipped ones.
fn project(name: &str, server: &ScriptedServer) -> Project {
    Project::new(name)
        .backend(&server.base_url())
        .file("agents/counter.yaml", COUNTER)
        .file("agents/writer.yaml", WRITER)
        .file("one.txt", "1")
}

/// The agent or phase that a model request belongs to.
#[derive(Debug, PartialEq)]
enum Caller {
    Plan,
    Summary,
    Counter,
    Writer,
}

fn caller(request: &Recorded) -> Caller {
    let prompt = request.prompt();
    if prompt.contains("You count.") {
        Caller::Counter
    } else if prompt.contains("You write.") {
        Caller::Writer
    } else if request.body["tools"][0]["function"]["name"] == "create_execution_plan" {
        Caller::Plan
    } else {
        Caller::Summary
    }
}

fn plan(subtasks: Value) -> Step {
    Step::tool("create_execution_plan", json!({"subtasks": subtasks}))
}

fn count_and_write() -> Value {
    json!([
        {"id": "count", "description": "Count the files.", "agent": "counter", "dependencies": [], "priority": 1},
        {"id": "write", "description": "Write about them.", "agent": "writer", "dependencies": ["count"], "priority": 2},
    ])
}

fn orchestrate(project: &Project, options: &[&str]) -> CommandOutput {
    project.run(&[&["orchestrate", "-t", "Tell me about the files."], options].concat())
}

/// Returns the events of a session.
fn journal(project: &Project, session: &str) -> Vec<Value> {
    let listed = project.run(&["sessions", "events", session, "--json"]).stdout;
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn events_of_type<'j>(journal: &'j [Value], kind: &str) -> Vec<&'j Value> {
    journal.iter().filter(|event| event["event_type"] == kind).collect()
}

#[test]
fn task_is_planned_executed_and_summarized() {
    let server = ScriptedServer::respond(|request, _| match caller(request) {
        Caller::Plan => plan(count_and_write()),
        Caller::Counter => Step::tool("submit_result", json!({"files": ["one.txt"]})),
        Caller::Writer => {
            assert!(request.prompt().contains("\"one.txt\""), "{}", request.prompt());
            Step::text("There is one.")
        }
        Caller::Summary => Step::text("There is one file [count], as is written [write]."),
    });
    let project = project("orchestrate-whole", &server);
    let ran = orchestrate(&project, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, "There is one file [count], as is written [write].\n");
    let progress: Vec<&str> = ran.stderr.lines().map(|line| line.split(" (ses_").next().unwrap()).collect();
    assert_eq!(
        progress,
        [
            "orchestrator: plan 1: count (counter), write (writer, after count)",
            "orchestrator: count (counter) started",
            "orchestrator: count (counter) completed",
            "orchestrator: write (writer) started",
            "orchestrator: write (writer) completed",
        ]
    );
    let offered = server.requests()[0].prompt();
    for agent in ["researcher", "implementer", "reviewer", "tester", "counter: Counts things.", "writer"] {
        assert!(offered.contains(&format!("- {agent}")), "{agent} is not in {offered}");
    }
}

#[test]
fn independent_subtasks_run_concurrently() {
    let gate = Gate::new();
    let (held, working) = (gate.clone(), AtomicUsize::new(0));
    let server = ScriptedServer::respond(move |request, _| match caller(request) {
        Caller::Plan => plan(json!([
            {"id": "a", "description": "A.", "agent": "writer"},
            {"id": "b", "description": "B.", "agent": "writer"},
            {"id": "c", "description": "C.", "agent": "writer"},
        ])),
        Caller::Summary => Step::text("All of them [a] [b] [c]."),
        // The gate opens when all three specialists have sent their request.
        _ => {
            if working.fetch_add(1, Ordering::SeqCst) == 2 {
                held.open();
            }
            Step::text("Done.").gate(&held)
        }
    });
    let ran = orchestrate(&project("orchestrate-parallel", &server), &[]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "All of them [a] [b] [c].\n"), "{}", ran.stderr);
    assert!(server.max_in_flight() >= 3, "{}", server.max_in_flight());
}

#[test]
fn plan_with_cyclic_dependencies_is_corrected() {
    let server = ScriptedServer::respond(|request, _| match caller(request) {
        Caller::Plan if request.prompt().contains("wait for each other") => {
            plan(json!([{"id": "a", "description": "A.", "agent": "writer"}]))
        }
        Caller::Plan => plan(json!([
            {"id": "a", "description": "A.", "agent": "writer", "dependencies": ["b"]},
            {"id": "b", "description": "B.", "agent": "writer", "dependencies": ["a"]},
        ])),
        Caller::Summary => Step::text("Done [a]."),
        _ => Step::text("Done."),
    });
    let ran = orchestrate(&project("orchestrate-circle", &server), &["--receipt"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let printed = ran.json();
    assert_eq!(
        (&printed["result"], &printed["receipt"]["retries"]),
        (&json!("Done [a]."), &json!(1)),
        "{printed}"
    );
    assert!(ran.stderr.contains("a → b → a"), "{}", ran.stderr);
}

#[test]
fn failed_subtask_is_retried_and_then_replanned() {
    let server = ScriptedServer::respond(|request, _| match caller(request) {
        Caller::Plan if request.prompt().contains("count (counter) failed") => {
            plan(json!([{"id": "write", "description": "Just write.", "agent": "writer"}]))
        }
        Caller::Plan => plan(count_and_write()),
        // Every reply of the counter is invalid.
        Caller::Counter => Step::text("I cannot."),
        Caller::Writer => Step::text("Done."),
        Caller::Summary => Step::text("It was written without counting [write]."),
    });
    let project = project("orchestrate-failing", &server);
    let ran = orchestrate(&project, &["--json"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let run = ran.json();
    let journal = journal(&project, run["session_id"].as_str().unwrap());
    let plans = events_of_type(&journal, "plan_created");
    assert_eq!((plans.len(), &plans[1]["round"]), (2, &json!(2)));
    assert!(plans[1]["reason"].as_str().unwrap().contains("Output held no JSON"), "{}", plans[1]);
    let calls: Vec<&str> = events_of_type(&journal, "child_started")
        .iter()
        .map(|event| event["call_id"].as_str().unwrap())
        .collect();
    assert_eq!(calls, ["1.count.1", "1.count.2", "2.write.1"]);
}

/// Returns a server whose writer succeeds and whose counter always fails. `summary` answers the request for the
/// summary.
fn failing_counter(summary: fn() -> Step) -> ScriptedServer {
    ScriptedServer::respond(move |request, _| match caller(request) {
        Caller::Plan if request.prompt().contains("write (writer) is done") => {
            plan(json!([{"id": "count", "description": "Count.", "agent": "counter"}]))
        }
        Caller::Plan => plan(json!([
            {"id": "count", "description": "Count.", "agent": "counter"},
            {"id": "write", "description": "Write.", "agent": "writer"},
        ])),
        Caller::Counter => Step::text("I cannot."),
        Caller::Writer => Step::text("Written."),
        Caller::Summary => {
            let prompt = request.prompt();
            assert!(prompt.contains("[count] counter: Count."), "{prompt}");
            assert!(prompt.contains("Not all subtasks are done"), "{prompt}");
            summary()
        }
    })
}

const COUNTER_PROBLEM: &str = "subtask 'count' (counter) failed: Output held no JSON";

#[test]
fn specialist_that_keeps_failing_gives_an_incomplete_summary() {
    let server = failing_counter(|| Step::text("It was written [write], but not counted [count]."));
    let project = project("orchestrate-incomplete", &server);
    let ran = orchestrate(&project, &[]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let (summary, missing) = ran.stdout.split_once("\n\n").unwrap();
    assert_eq!(summary, "It was written [write], but not counted [count].");
    assert!(missing.starts_with("Incomplete. Not done:\n[count] Count. ("), "{missing}");
    let line = format!("slipform: the result is incomplete: {COUNTER_PROBLEM}");
    assert!(ran.stderr.contains(&line), "{}", ran.stderr);
    let sessions = project.run(&["sessions", "list", "--json"]).json();
    let is_lead = |session: &&Value| session["parent_session_id"].is_null();
    let lead = sessions["sessions"].as_array().unwrap().iter().find(is_lead).unwrap();
    let result = project.run(&["sessions", "result", lead["session_id"].as_str().unwrap()]);
    assert_eq!((result.status, result.stdout), (1, ran.stdout));
    assert!(result.stderr.contains(&line), "{}", result.stderr);
}

#[test]
fn incomplete_run_has_summary_flag_and_all_subtasks() {
    let server = failing_counter(|| Step::text("It was written [write]."));
    let project = project("orchestrate-incomplete-json", &server);
    let ran = orchestrate(&project, &["--json"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let run = ran.json();
    assert_eq!((&run["status"], &run["error"]), (&json!("completed"), &json!(null)), "{run}");
    assert!(run["result_text"].as_str().unwrap().starts_with("It was written [write]."), "{run}");
    assert_eq!(run["receipt"]["flags"], json!(["incomplete"]), "{run}");
    assert!(run["receipt"]["subtasks"][1]["error"].as_str().unwrap().contains("no JSON"), "{run}");
    let subtasks: Vec<(&Value, &Value, &Value)> = run["receipt"]["subtasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|subtask| (&subtask["id"], &subtask["status"], &subtask["result"]))
        .collect();
    assert_eq!(
        subtasks,
        [
            (&json!("write"), &json!("completed"), &json!("Written.")),
            (&json!("count"), &json!("failed"), &json!(null)),
        ]
    );
}

#[test]
fn incomplete_summary_with_schema_prints_its_json_and_exits_with_1() {
    let server = failing_counter(|| Step::json(&json!({"written": true})));
    let schema =
        r#"{"type": "object", "required": ["written"], "properties": {"written": {"type": "boolean"}}}"#;
    let project = project("orchestrate-incomplete-schema", &server).file("written.json", schema);
    let ran =
        project.run(&["run", "orchestrator", "-p", "Tell me.", "--schema", "written.json", "--receipt"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let printed = ran.json();
    assert_eq!(printed["result"], json!({"written": true}), "{printed}");
    assert_eq!(printed["receipt"]["flags"], json!(["incomplete"]), "{printed}");
    assert!(ran.stderr.contains(COUNTER_PROBLEM), "{}", ran.stderr);
}

#[test]
fn failed_summary_keeps_results_of_specialists_in_salvage() {
    let server = failing_counter(|| Step::status(400));
    let ran = orchestrate(&project("orchestrate-no-summary", &server), &["--json"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    let run = ran.json();
    assert_eq!(run["error"]["type"], "backend_rejected", "{run}");
    for salvaged in [&run["salvage"]["subtasks"], &run["salvage"]["best_candidate"]["subtasks"]] {
        let first = (&salvaged[0]["id"], &salvaged[0]["result"]);
        assert_eq!(first, (&json!("write"), &json!("Written.")), "{run}");
        assert!(salvaged[1]["error"].as_str().unwrap().contains("Output held no JSON"), "{run}");
    }
}

#[test]
fn parent_of_an_orchestrator_reads_that_its_json_is_incomplete() {
    let server = ScriptedServer::respond(|request, _| {
        let prompt = request.prompt();
        if prompt.contains("You are the boss.") {
            return if prompt.contains(&format!("This result is incomplete: {COUNTER_PROBLEM}")) {
                Step::text("Noted.")
            } else {
                Step::tool("start_agent_session", json!({"agent_name": "lead", "prompt": "Go."}))
            };
        }
        match caller(request) {
            Caller::Plan => plan(json!([
                {"id": "count", "description": "Count.", "agent": "counter"},
                {"id": "write", "description": "Write.", "agent": "writer"},
            ])),
            Caller::Counter => Step::text("I cannot."),
            Caller::Writer => Step::text("Written."),
            Caller::Summary => Step::json(&json!({"written": true})),
        }
    });
    let lead = "name: lead\ntype: orchestrator\nagents: [counter, writer]\n\
                output_schema: {type: object, required: [written], properties: {written: {type: boolean}}}\n";
    let boss = "name: boss\nsystem_prompt: You are the boss.\nagents: [lead]\n";
    let project =
        project("orchestrate-nested", &server).file("agents/lead.yaml", lead).file("agents/boss.yaml", boss);
    let ran = project.run(&["run", "boss", "-p", "Tell me."]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Noted.\n"), "{}", ran.stderr);
}

#[test]
fn orchestration_without_any_result_fails() {
    let server = ScriptedServer::respond(|request, _| match caller(request) {
        Caller::Plan => plan(json!([{"id": "count", "description": "Count.", "agent": "counter"}])),
        Caller::Counter => Step::text("I cannot."),
        other => panic!("unexpected request of {other:?}"),
    });
    let ran = orchestrate(&project("orchestrate-hopeless", &server), &["--json"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let run = ran.json();
    assert_eq!(run["error"]["type"], "tool_failed", "{run}");
    assert_eq!(run["error"]["message"], "'count' (counter) failed, and 3 plans did not help");
}

#[test]
fn missing_files_and_unknown_subtasks_in_citations_are_refused() {
    let server = ScriptedServer::respond(|request, _| match caller(request) {
        Caller::Plan => plan(count_and_write()),
        Caller::Counter if request.prompt().contains("is not a file or folder of the project") => {
            Step::tool("submit_result", json!({"files": ["one.txt"]}))
        }
        Caller::Counter => Step::tool("submit_result", json!({"files": ["one.txt", "two.txt"]})),
        Caller::Writer => {
            assert!(!request.prompt().contains("two.txt"), "{}", request.prompt());
            Step::text("One.")
        }
        // The summary first cites subtasks that do not exist.
        Caller::Summary if request.prompt().contains("there is no such subtask") => {
            Step::text("One file [count].")
        }
        Caller::Summary => Step::text("One file [count1], says [count2]. [count]"),
    });
    let project = project("orchestrate-lying", &server);
    let ran = orchestrate(&project, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("'two.txt' is not a file or folder of the project"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "One file [count].\n");
}

#[test]
fn slow_subtask_delays_only_its_dependents() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ScriptedServer::respond(move |request, _| match caller(request) {
        Caller::Plan => plan(json!([
            {"id": "slow", "description": "Count.", "agent": "counter"},
            {"id": "first", "description": "First.", "agent": "writer"},
            {"id": "last", "description": "Last.", "agent": "writer", "dependencies": ["first"]},
        ])),
        Caller::Counter => Step::tool("submit_result", json!({"files": []})).gate(&held),
        Caller::Writer => {
            // The counter is released when the last of the other subtasks has begun.
            if request.prompt().contains("Last.") {
                held.open();
            }
            Step::text("Done.")
        }
        Caller::Summary => Step::text("Done [slow] [first] [last]."),
    });
    let ran = orchestrate(&project("orchestrate-slow", &server), &[]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Done [slow] [first] [last].\n"), "{}", ran.stderr);
}

#[test]
fn summary_with_schema_is_valid_json() {
    let server = ScriptedServer::respond(|request, _| match caller(request) {
        Caller::Plan => plan(json!([{"id": "a", "description": "A.", "agent": "writer"}])),
        Caller::Writer => Step::text("Seven."),
        _ => Step::json(&json!({"count": 7})),
    });
    let schema = r#"{"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}"#;
    let project = project("orchestrate-schema", &server).file("count.json", schema);
    let ran = orchestrate(&project, &["--schema", "count.json"]);
    assert_eq!((ran.status, ran.json()), (0, json!({"count": 7})), "{}", ran.stderr);
}

#[test]
fn unclear_answer_gets_follow_up_questions_until_clear() {
    let server = ScriptedServer::respond(|request, number| {
        let score = |total: u32, questions: Value| {
            let status = if total < 85 { "needs_clarification" } else { "success" };
            Step::json(&json!({"response_type": "clarity", "status": status, "message": "Scored.",
                "clarity_data": {"total_score": total, "follow_up_questions": questions}}))
        };
        match number {
            0 => Step::text("I updated the file."),
            1 => score(35, json!(["Which file?"])),
            2 => {
                assert!(request.prompt().contains("- Which file?"), "{}", request.prompt());
                Step::text("I updated src/auth.rs.")
            }
            _ => score(95, json!([])),
        }
    });
    let judge = "name: judge\nsystem_prompt: You score.\nparameters_schema: {type: object, required: [question, reply], \
        properties: {question: {type: string}, reply: {type: string}}}\nresponse_type: clarity\n";
    let author =
        "name: author\nsystem_prompt: You answer.\nclarity: {threshold: 85, max_rounds: 5, agent: judge}\n";
    let export = Project::new("clarity-schema").run(&["schemas", "export", "universal-agent-response"]);
    let judge = format!("{judge}output_schema: {}\n", export.json());
    let project = Project::new("clarity")
        .backend(&server.base_url())
        .file("agents/judge.yaml", &judge)
        .file("agents/author.yaml", author);
    let ran = project.run(&["run", "author", "-p", "How did you do it?", "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let run = ran.json();
    assert_eq!(run["result_text"], "I updated src/auth.rs.", "{run}");
    let journal = journal(&project, run["session_id"].as_str().unwrap());
    let scores: Vec<&Value> =
        events_of_type(&journal, "clarity_scored").iter().map(|event| &event["score"]).collect();
    assert_eq!(scores, [35, 95]);
    assert!(ran.stderr.contains("author: clarity 35 of 85; its author is asked"), "{}", ran.stderr);
}

#[test]
fn orchestrator_without_usable_agents_is_refused() {
    let project = Project::new("orchestrate-alone")
        .file("agents/lead.yaml", "name: lead\ntype: orchestrator\n")
        .file("agents/other.yaml", "name: other\ntype: orchestrator\nagents: [nobody]\n");
    let ran = project.run(&["orchestrate", "-t", "Go.", "--agent", "lead"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("$.agents: an orchestrator needs agents for its subtasks"), "{}", ran.stderr);
    let ran = project.run(&["orchestrate", "-t", "Go.", "--agent", "researcher"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("agent `researcher` is not an orchestrator"), "{}", ran.stderr);
    let ran = project.run(&["orchestrate", "-t", "Go.", "--agent", "other"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("agent `other`, agents[0]"), "{}", ran.stderr);
}

//! Teams: a plan, specialists that work, fail, are slow or lie, and a summary, from the command line and over the API.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Project, Ran};
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

/// A project with two agents of its own beside those that ship.
fn project(name: &str, server: &ScriptedServer) -> Project {
    Project::new(name)
        .backend(&server.base_url())
        .file("agents/counter.yaml", COUNTER)
        .file("agents/writer.yaml", WRITER)
        .file("one.txt", "1")
}

/// Who is asked.
#[derive(Debug, PartialEq)]
enum Asked {
    Plan,
    Summary,
    Counter,
    Writer,
}

fn asked(request: &Recorded) -> Asked {
    let prompt = request.prompt();
    match () {
        () if prompt.contains("You count.") => Asked::Counter,
        () if prompt.contains("You write.") => Asked::Writer,
        () if request.body["tools"][0]["function"]["name"] == "create_execution_plan" => Asked::Plan,
        () => Asked::Summary,
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

fn orchestrate(project: &Project, more: &[&str]) -> Ran {
    project.run(&[&["orchestrate", "-t", "Tell me about the files."], more].concat())
}

/// What the orchestrator did, by the types of its events.
fn journal(project: &Project, session: &str) -> Vec<Value> {
    let listed = project.run(&["sessions", "events", session, "--json"]).stdout;
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'j>(journal: &'j [Value], kind: &str) -> Vec<&'j Value> {
    journal.iter().filter(|event| event["event_type"] == kind).collect()
}

#[test]
fn a_task_is_taken_apart_done_and_summed_up() {
    let server = ScriptedServer::respond(|request, _| match asked(request) {
        Asked::Plan => plan(count_and_write()),
        Asked::Counter => Step::tool("submit_result", json!({"files": ["one.txt"]})),
        Asked::Writer => {
            assert!(request.prompt().contains("\"one.txt\""), "{}", request.prompt());
            Step::text("There is one.")
        }
        Asked::Summary => Step::text("There is one file [count], as is written [write]."),
    });
    let project = project("orchestra-whole", &server);
    let ran = orchestrate(&project, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, "There is one file [count], as is written [write].\n");
    let said: Vec<&str> = ran.stderr.lines().map(|line| line.split(" (ses_").next().unwrap()).collect();
    assert_eq!(
        said,
        [
            "orchestrator: plan 1: count (counter), write (writer, after count)",
            "orchestrator: count (counter) begins",
            "orchestrator: count (counter) is done",
            "orchestrator: write (writer) begins",
            "orchestrator: write (writer) is done",
        ]
    );
    let offered = server.requests()[0].prompt();
    for agent in ["researcher", "implementer", "reviewer", "tester", "counter: Counts things.", "writer"] {
        assert!(offered.contains(&format!("- {agent}")), "{agent} is not in {offered}");
    }
}

#[test]
fn specialists_that_depend_on_nobody_work_at_the_same_time() {
    let gate = Gate::new();
    let (held, working) = (gate.clone(), AtomicUsize::new(0));
    let server = ScriptedServer::respond(move |request, _| match asked(request) {
        Asked::Plan => plan(json!([
            {"id": "a", "description": "A.", "agent": "writer"},
            {"id": "b", "description": "B.", "agent": "writer"},
            {"id": "c", "description": "C.", "agent": "writer"},
        ])),
        Asked::Summary => Step::text("All of them [a] [b] [c]."),
        // Nobody is answered before all of them have asked.
        _ => {
            if working.fetch_add(1, Ordering::SeqCst) == 2 {
                held.open();
            }
            Step::text("Done.").gate(&held)
        }
    });
    let ran = orchestrate(&project("orchestra-parallel", &server), &[]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "All of them [a] [b] [c].\n"), "{}", ran.stderr);
    assert!(server.max_in_flight() >= 3, "{}", server.max_in_flight());
}

#[test]
fn a_plan_that_cannot_be_carried_out_is_corrected() {
    let server = ScriptedServer::respond(|request, _| match asked(request) {
        Asked::Plan => match request.prompt().contains("wait for each other") {
            false => plan(json!([
                {"id": "a", "description": "A.", "agent": "writer", "dependencies": ["b"]},
                {"id": "b", "description": "B.", "agent": "writer", "dependencies": ["a"]},
            ])),
            true => plan(json!([{"id": "a", "description": "A.", "agent": "writer"}])),
        },
        Asked::Summary => Step::text("Done [a]."),
        _ => Step::text("Done."),
    });
    let ran = orchestrate(&project("orchestra-circle", &server), &["--receipt"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let told = ran.json();
    assert_eq!((&told["result"], &told["receipt"]["retries"]), (&json!("Done [a]."), &json!(1)), "{told}");
    assert!(ran.stderr.contains("a → b → a"), "{}", ran.stderr);
}

#[test]
fn a_specialist_that_fails_is_tried_again_and_then_planned_around() {
    let server = ScriptedServer::respond(|request, _| match asked(request) {
        Asked::Plan => match request.prompt().contains("count (counter) failed") {
            false => plan(count_and_write()),
            true => plan(json!([{"id": "write", "description": "Just write.", "agent": "writer"}])),
        },
        // It never gives a result that could be taken.
        Asked::Counter => Step::text("I cannot."),
        Asked::Writer => Step::text("Done."),
        Asked::Summary => Step::text("It was written without counting [write]."),
    });
    let project = project("orchestra-failing", &server);
    let ran = orchestrate(&project, &["--json"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let run = ran.json();
    let journal = journal(&project, run["session_id"].as_str().unwrap());
    let plans = of(&journal, "plan_created");
    assert_eq!((plans.len(), &plans[1]["round"]), (2, &json!(2)));
    assert!(plans[1]["reason"].as_str().unwrap().contains("Output held no JSON"), "{}", plans[1]);
    let calls: Vec<&str> =
        of(&journal, "child_started").iter().map(|event| event["call_id"].as_str().unwrap()).collect();
    assert_eq!(calls, ["1.count.1", "1.count.2", "2.write.1"]);
}

#[test]
fn specialists_that_always_fail_end_the_run_and_nothing_that_was_done_is_lost() {
    let server = ScriptedServer::respond(|request, _| match asked(request) {
        Asked::Plan if request.prompt().contains("write (writer) is done") => {
            plan(json!([{"id": "count", "description": "Count.", "agent": "counter"}]))
        }
        Asked::Plan => plan(json!([
            {"id": "count", "description": "Count.", "agent": "counter"},
            {"id": "write", "description": "Write.", "agent": "writer"},
        ])),
        Asked::Counter => Step::text("I cannot."),
        Asked::Writer => Step::text("Written."),
        Asked::Summary => panic!("there is nothing to sum up"),
    });
    let ran = orchestrate(&project("orchestra-hopeless", &server), &["--json"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let run = ran.json();
    assert_eq!(run["error"]["type"], "tool_failed", "{run}");
    assert_eq!(run["error"]["message"], "'count' (counter) failed, and 3 plans did not help");
    let kept = &run["salvage"]["best_candidate"]["subtasks"];
    assert_eq!((&kept[0]["id"], &kept[0]["result"]), (&json!("write"), &json!("Written.")), "{run}");
}

#[test]
fn a_specialist_that_lies_is_not_believed() {
    let server = ScriptedServer::respond(|request, _| match asked(request) {
        Asked::Plan => plan(count_and_write()),
        Asked::Counter => match request.prompt().contains("is not a file or folder of the project") {
            false => Step::tool("submit_result", json!({"files": ["one.txt", "two.txt"]})),
            true => Step::tool("submit_result", json!({"files": ["one.txt"]})),
        },
        Asked::Writer => {
            assert!(!request.prompt().contains("two.txt"), "{}", request.prompt());
            Step::text("One.")
        }
        // And whoever sums up does not get away with what nobody found either.
        Asked::Summary => match request.prompt().contains("there is no such subtask") {
            false => Step::text("One file [count1], says [count2]. [count]"),
            true => Step::text("One file [count]."),
        },
    });
    let project = project("orchestra-lying", &server);
    let ran = orchestrate(&project, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("'two.txt' is not a file or folder of the project"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "One file [count].\n");
}

#[test]
fn a_slow_specialist_holds_up_nobody_who_does_not_need_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ScriptedServer::respond(move |request, _| match asked(request) {
        Asked::Plan => plan(json!([
            {"id": "slow", "description": "Count.", "agent": "counter"},
            {"id": "first", "description": "First.", "agent": "writer"},
            {"id": "last", "description": "Last.", "agent": "writer", "dependencies": ["first"]},
        ])),
        Asked::Counter => Step::tool("submit_result", json!({"files": []})).gate(&held),
        Asked::Writer => {
            // The slow one may go on when the last of the others has begun.
            if request.prompt().contains("Last.") {
                held.open();
            }
            Step::text("Done.")
        }
        Asked::Summary => Step::text("Done [slow] [first] [last]."),
    });
    let ran = orchestrate(&project("orchestra-slow", &server), &[]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Done [slow] [first] [last].\n"), "{}", ran.stderr);
}

#[test]
fn a_summary_can_have_a_schema() {
    let server = ScriptedServer::respond(|request, _| match asked(request) {
        Asked::Plan => plan(json!([{"id": "a", "description": "A.", "agent": "writer"}])),
        Asked::Writer => Step::text("Seven."),
        _ => Step::json(&json!({"count": 7})),
    });
    let schema = r#"{"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}"#;
    let project = project("orchestra-schema", &server).file("count.json", schema);
    let ran = orchestrate(&project, &["--schema", "count.json"]);
    assert_eq!((ran.status, ran.json()), (0, json!({"count": 7})), "{}", ran.stderr);
}

#[test]
fn an_answer_is_asked_about_until_it_is_clear() {
    let server = ScriptedServer::respond(|request, number| {
        let score = |total: u32, questions: Value| {
            Step::json(&json!({"response_type": "clarity", "status": "success", "message": "Scored.",
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
    let scores: Vec<&Value> = of(&journal, "clarity_scored").iter().map(|event| &event["score"]).collect();
    assert_eq!(scores, [35, 95]);
    assert!(ran.stderr.contains("author: clarity 35 of 85; its author is asked"), "{}", ran.stderr);
}

#[test]
fn nobody_to_plan_with_is_told_before_anything_begins() {
    let project = Project::new("orchestra-alone")
        .file("agents/lead.yaml", "name: lead\ntype: orchestrator\n")
        .file("agents/other.yaml", "name: other\ntype: orchestrator\nagents: [nobody]\n");
    let ran = project.run(&["orchestrate", "-t", "Go.", "--agent", "lead"]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("$.agents: an orchestrator needs agents to give subtasks to"),
        "{}",
        ran.stderr
    );
    let ran = project.run(&["orchestrate", "-t", "Go.", "--agent", "researcher"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("the agent 'researcher' leads no team"), "{}", ran.stderr);
    let ran = project.run(&["orchestrate", "-t", "Go.", "--agent", "other"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("the agent 'other', agents[0]"), "{}", ran.stderr);
}

//! Children started with callbacks resume their parent's session when they end.

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_testkit::{Gate, Recorded, Step};
use slipform_types::RunStatus;

use crate::support::fixture::{Fixture, agent, requests_of, serve_agents};
use crate::support::model::answers;
use crate::support::outcome::completed;
use crate::support::test_coordinator::{TestCoordinator, run_tree, session};

const START: &str = "start_agent_session";

fn starts(name: &str) -> Value {
    json!({"agent_name": name, "prompt": "Look.", "mode": "callback"})
}

/// Returns the last message to the model.
fn last(request: &Recorded) -> String {
    let messages = request.body["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].as_str().unwrap().to_owned()
}

fn is_callback(request: &Recorded) -> bool {
    last(request).starts_with("<agent-callback")
}

fn agents(protocol: &str) -> [Value; 3] {
    [
        agent("parent", &["left", "right"], json!({"protocol": protocol})),
        agent("left", &[], json!({"output_schema": {"type": "object"}})),
        agent("right", &[], json!({})),
    ]
}

#[tokio::test]
async fn child_calls_back_with_the_documented_text() {
    for protocol in ["tools", "actions"] {
        let by_actions = protocol == "actions";
        let says = move |text: &str| {
            if by_actions {
                Step::json(&json!({"action": "NORMAL_RESPONSE", "reasoning": "", "content": text}))
            } else {
                Step::text(text)
            }
        };
        let server = serve_agents(move |name, request| match name {
            "left" => Step::text("{\"found\": [1]}"),
            _ if is_callback(request) => says("It found one."),
            _ if answers(request).is_empty() && by_actions => Step::json(&json!({
                "action": "AGENT_CALL", "reasoning": "", "content": "Look.", "target_agent": "left",
                "parameters": {"mode": "callback"},
            })),
            _ if answers(request).is_empty() => Step::tool(START, starts("left")),
            _ => says("It is looking."),
        });
        let ended = run_tree(&Fixture::new(&agents(protocol), &server), "parent", "Search.").await;
        assert_eq!(
            completed(ended.outcome.clone()).result_text.as_deref(),
            Some("It found one."),
            "{protocol}"
        );
        assert_eq!(ended.statuses(&session(1)), ["completed", "completed"], "{protocol}");
        let requests = requests_of(&server, "parent");
        let answer = ended.normalized(&answers(&requests[1]).concat());
        assert!(answer.contains("\"session_id\":\"ses_020202020202\",\"status\":\"running\""), "{answer}");
        assert_eq!(
            ended.normalized(&last(requests.last().unwrap())),
            "<agent-callback session=\"ses_020202020202\" status=\"completed\">\n## Child Result\n\n{\n  \
             \"found\": [\n    1\n  ]\n}\n</agent-callback>\n\nPlease continue with the orchestration based on this \
             result."
        );
        let prompt = requests.last().unwrap().prompt();
        assert!(prompt.contains("Search.") && prompt.contains("It is looking."), "{protocol}: {prompt}");
    }
}

#[tokio::test]
async fn failed_child_calls_back_with_its_error() {
    let server = serve_agents(|name, request| match name {
        "right" => Step::status(401).body("{\"error\": {\"message\": \"who are you?\"}}"),
        _ if is_callback(request) => Step::text("It failed."),
        _ if answers(request).is_empty() => Step::tool(START, starts("right")),
        _ => Step::text("It is looking."),
    });
    let ended = run_tree(&Fixture::new(&agents("tools"), &server), "parent", "Search.").await;
    let received = ended.normalized(&last(requests_of(&server, "parent").last().unwrap()));
    assert_eq!(completed(ended.outcome).result_text.as_deref(), Some("It failed."));
    let (begin, rest) = received.split_once("## Error\n\n").unwrap();
    assert_eq!(begin, "<agent-callback session=\"ses_020202020202\" status=\"failed\">\n");
    let (error, end) = rest.split_once("\n</agent-callback>").unwrap();
    assert!(error.contains("who are you?") && error.ends_with("(backend_rejected)"), "{error}");
    assert_eq!(end, "\n\nPlease handle this failure and continue with the orchestration.");
}

/// Returns the callback of two children that ended while their parent was busy.
async fn aggregated(right: Step) -> String {
    let gate = Gate::new();
    let step_gate = gate.clone();
    let server = serve_agents(move |name, request| match name {
        "left" => Step::text("{}"),
        "right" => right.clone(),
        _ if is_callback(request) => Step::text("Both are back."),
        _ if answers(request).is_empty() => {
            Step::tool(START, starts("left")).and_tool(START, starts("right"))
        }
        _ => Step::text("They are looking.").gate(&step_gate),
    });
    let coordinator = TestCoordinator::open(&Fixture::new(&agents("tools"), &server)).await;
    // The model answers the parent only when both children have ended.
    let opening = async {
        coordinator.until_runs(2, RunStatus::is_ended).await;
        gate.open();
    };
    let (ended, ()) = tokio::join!(coordinator.run_tree(("parent", "Search."), Arc::new(())), opening);
    assert_eq!(completed(ended.outcome.clone()).result_text.as_deref(), Some("Both are back."));
    assert_eq!(ended.statuses(&session(1)), ["completed", "completed"]);
    let callbacks: Vec<String> = requests_of(&server, "parent")
        .iter()
        .filter(|request| is_callback(request))
        .map(|request| last(request))
        .collect();
    assert_eq!(callbacks.len(), 1, "{callbacks:?}");
    ended.normalized(&callbacks.concat())
}

/// Returns the sections of the children, sorted because they may end in either order, and the closing text.
fn sections(callback: &str) -> (Vec<String>, String) {
    let inside =
        callback.strip_prefix("<agent-callback type=\"aggregated\" count=\"2\">\n").expect("an aggregate");
    let (inside, end) = inside.split_once("\n</agent-callback>").unwrap();
    let mut parts: Vec<String> = inside.split("\n\n---\n\n").map(str::to_owned).collect();
    parts.sort();
    (parts, end.to_owned())
}

#[tokio::test]
async fn children_that_end_while_the_parent_is_busy_call_back_together() {
    let (parts, end) = sections(&aggregated(Step::text("Nothing there.")).await);
    assert_eq!(
        parts,
        [
            "### Child: ses_020202020202 (status: completed)\n\n## Child Result\n\n{}",
            "### Child: ses_030303030303 (status: completed)\n\n## Child Result\n\nNothing there.",
        ]
    );
    assert_eq!(end, "\n\nPlease continue with the orchestration based on these results.");

    let (parts, end) = sections(&aggregated(Step::status(401)).await);
    assert!(
        parts[1].starts_with("### Child: ses_030303030303 (status: failed)\n\n## Error\n\n"),
        "{parts:?}"
    );
    assert_eq!(end, "\n\nPlease handle the failures and continue with the orchestration.");
}

#[tokio::test]
async fn resumed_parent_can_resume_its_child() {
    let server = serve_agents(|name, request| match (name, request.prompt().contains("Look again.")) {
        ("left", false) => Step::text("{\"found\": 0}"),
        ("left", true) => Step::text("{\"found\": 2}"),
        _ if is_callback(request) => {
            let session = last(request).split('"').nth(1).unwrap().to_owned();
            Step::tool("resume_agent_session", json!({"session_id": session, "prompt": "Look again."}))
        }
        _ => match answers(request).len() {
            0 => Step::tool(START, starts("left")),
            1 => Step::text("It is looking."),
            _ => Step::text(answers(request).pop().unwrap()),
        },
    });
    let ended = run_tree(&Fixture::new(&agents("tools"), &server), "parent", "Search.").await;
    let text = completed(ended.outcome.clone()).result_text;
    assert_eq!(text.as_deref(), Some("{\n  \"found\": 2\n}"));
    assert_eq!(ended.statuses(&session(2)), ["completed", "completed"]);
}

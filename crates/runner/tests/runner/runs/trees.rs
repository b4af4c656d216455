//! Trees of runs: programs as children, busy children, endless callbacks, and resources of ended children.

use std::sync::{Arc, Mutex, Weak};

use serde_json::{Value, json};
use slipform_model::Watch;
use slipform_runner::{Progress, RunContext};
use slipform_testkit::{Gate, Step};
use slipform_types::{EventBody, RunStatus};

use crate::support::fakes::FakeTool;
use crate::support::fixture::{Fixture, agent, ladder_of, requests_of, serve_agents};
use crate::support::folder::Folder;
use crate::support::model::{ModelTurn, answers};
use crate::support::outcome::completed;
use crate::support::test_coordinator::{TestCoordinator, run_tree, session};

const START: &str = "start_agent_session";

#[tokio::test]
async fn procedural_agent_can_be_a_child() {
    let scan = json!({
        "type": "procedural", "command": ["sh", "scan.sh"],
        "parameters_schema": {
            "type": "object", "required": ["path"], "properties": {"path": {"type": "string"}},
            "additionalProperties": false,
        },
    });
    for protocol in ["tools", "actions"] {
        let by_actions = protocol == "actions";
        let folder = Folder::with("scanning", &[("scan.sh", "printf '{\"given\": \"%s\"}' \"$*\"")]);
        let server = serve_agents(move |_, request| match answers(request).pop() {
            None if by_actions => Step::json(&json!({
                "action": "AGENT_CALL", "reasoning": "", "content": "Scan src.",
                "target_agent": "scanner", "parameters": {"path": "src"},
            })),
            None => Step::tool(START, json!({"agent_name": "scanner", "parameters": {"path": "src"}})),
            Some(answer) if by_actions => {
                Step::json(&json!({"action": "NORMAL_RESPONSE", "reasoning": "", "content": answer}))
            }
            Some(answer) => Step::text(answer),
        });
        let agents = vec![
            (agent("parent", &["scanner"], json!({"protocol": protocol})), ladder_of(&server)),
            (agent("scanner", &[], scan.clone()), Vec::new()),
        ];
        let fixture = Arc::new(Fixture::with(agents, &folder.path(), |_| Vec::new()));
        let ended = run_tree(&fixture, "parent", "Scan.").await;
        let text = completed(ended.outcome).result_text.unwrap();
        assert_eq!(text, "{\n  \"given\": \"--path src\"\n}", "{protocol}");
    }
}

#[tokio::test]
async fn busy_child_cannot_be_resumed() {
    let resume = || json!({"agent_name": "child", "prompt": "More."});
    let gate = Gate::new();
    let step_gate = gate.clone();
    let server = serve_agents(move |name, request| match (name, answers(request).len()) {
        ("parent", 0) => Step::tool(START, json!({"agent_name": "child", "prompt": "Begin."})),
        ("parent", 1) => {
            Step::tool("resume_agent_session", resume()).and_tool("resume_agent_session", resume())
        }
        ("parent", _) => Step::text("Enough."),
        _ if request.prompt().contains("More.") => Step::text("Yes.").gate(&step_gate),
        _ => Step::text("Yes."),
    });
    let agents = [agent("parent", &["child"], json!({})), agent("child", &[], json!({}))];
    let coordinator = TestCoordinator::open(&Fixture::new(&agents, &server)).await;
    // The model answers the child's second run only when its parent has made all its calls and waits.
    let opening = async {
        server.wait_for_requests_async(4).await;
        coordinator.until_runs(1, |status| status == RunStatus::Waiting).await;
        gate.open();
    };
    let (ended, ()) = tokio::join!(coordinator.run_tree(("parent", "Go."), Arc::new(())), opening);
    completed(ended.outcome.clone());
    let received = answers(requests_of(&server, "parent").last().unwrap());
    assert_eq!(received[..2], ["Yes.", "Yes."]);
    assert_eq!(
        ended.normalized(&received[2]),
        "Error: the session ses_020202020202 is still busy; wait for its result first"
    );
}

#[tokio::test]
async fn chain_of_callbacks_is_limited() {
    let server = serve_agents(|name, request| {
        let messages = request.body["messages"].as_array().unwrap();
        let is_asked = messages.last().unwrap()["role"] == "user";
        match (name, is_asked) {
            ("parent", true) => {
                Step::tool(START, json!({"agent_name": "child", "prompt": "Again.", "mode": "callback"}))
            }
            ("parent", false) => Step::text("Once more."),
            _ => Step::text("Yes."),
        }
    });
    let agents = [agent("parent", &["child"], json!({})), agent("child", &[], json!({}))];
    let ended = run_tree(&Fixture::new(&agents, &server), "parent", "Go.").await;
    let starts = ended.events.iter().filter(|event| matches!(event.body, EventBody::RunStart { .. })).count();
    // The limit of 200 runs per tree, and the callback of the last one.
    assert_eq!(starts, 201);
    completed(ended.outcome);
}

/// Records whether the child's tool still exists when its parent continues.
struct ToolWatch {
    tool: Arc<Mutex<Weak<FakeTool>>>,
    seen: Mutex<Vec<bool>>,
}

impl Watch for ToolWatch {}

impl Progress for ToolWatch {
    fn happened(&self, context: &RunContext, body: &EventBody) {
        if context.blueprint().name == "parent" && matches!(body, EventBody::Message { .. }) {
            self.seen.lock().unwrap().push(self.tool.lock().unwrap().upgrade().is_some());
        }
    }
}

#[tokio::test]
async fn tools_of_a_child_are_dropped_when_it_has_ended() {
    let server = serve_agents(|name, request| match (name, answers(request).len()) {
        ("parent", 0) => Step::tool(START, json!({"agent_name": "child", "prompt": "Act."})),
        ("parent", _) => Step::text("Done."),
        (_, 0) => ModelTurn::call("fs:list", json!({})).step(request),
        _ => Step::text("Acted."),
    });
    let agents: Vec<Value> =
        vec![agent("parent", &["child"], json!({})), agent("child", &[], json!({"tools": ["fs:list"]}))];
    let agents = agents.into_iter().map(|agent| (agent, ladder_of(&server))).collect();
    let tool = Arc::new(Mutex::new(Weak::new()));
    let made = tool.clone();
    let fixture = Fixture::with(agents, ".", move |name| {
        if name != "child" {
            return Vec::new();
        }
        let echo = FakeTool::echo("fs:list");
        *made.lock().unwrap() = Arc::downgrade(&echo);
        vec![echo]
    });
    let watch = Arc::new(ToolWatch { tool, seen: Mutex::default() });
    let coordinator = TestCoordinator::open(&Arc::new(fixture)).await;
    let ended = coordinator.run_tree(("parent", "Go."), watch.clone()).await;
    completed(ended.outcome.clone());
    assert_eq!(ended.statuses(&session(2)), ["completed"]);
    // Once before the child started, once after it ended.
    assert_eq!(*watch.seen.lock().unwrap(), [false, false]);
}

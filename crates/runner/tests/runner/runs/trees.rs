//! Trees of runs: programs as children, children that are busy, callbacks without end, and what is left of it all.

use std::sync::{Arc, Mutex, Weak};

use serde_json::{Value, json};
use slipform_model::Watch;
use slipform_runner::{Progress, RunContext};
use slipform_testkit::{Gate, Step};
use slipform_types::{EventBody, RunStatus};

use crate::support::fixture::{Fixture, agent, asked, on, playing};
use crate::support::folder::Folder;
use crate::support::model::{Move, answers};
use crate::support::parts::Played;
use crate::support::perform::completed;
use crate::support::test_coordinator::{TestCoordinator, perform, session};

const START: &str = "start_agent_session";

#[tokio::test]
async fn a_program_is_a_child_like_any_other() {
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
        let server = playing(move |_, request| match answers(request).pop() {
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
            (agent("parent", &["scanner"], json!({"protocol": protocol})), on(&server)),
            (agent("scanner", &[], scan.clone()), Vec::new()),
        ];
        let agency = Arc::new(Fixture::with(agents, &folder.path(), |_| Vec::new()));
        let ended = perform(&agency, "parent", "Scan.").await;
        let text = completed(ended.outcome).result_text.unwrap();
        assert_eq!(text, "{\n  \"given\": \"--path src\"\n}", "{protocol}");
    }
}

#[tokio::test]
async fn a_child_that_is_busy_cannot_be_told_more() {
    let resume = || json!({"agent_name": "child", "prompt": "More."});
    let gate = Gate::new();
    let door = gate.clone();
    let server = playing(move |name, request| match (name, answers(request).len()) {
        ("parent", 0) => Step::tool(START, json!({"agent_name": "child", "prompt": "Begin."})),
        ("parent", 1) => {
            Step::tool("resume_agent_session", resume()).and_tool("resume_agent_session", resume())
        }
        ("parent", _) => Step::text("Enough."),
        _ if request.prompt().contains("More.") => Step::text("Yes.").gate(&door),
        _ => Step::text("Yes."),
    });
    let agents = [agent("parent", &["child"], json!({})), agent("child", &[], json!({}))];
    let place = TestCoordinator::open(&Fixture::new(&agents, &server)).await;
    // The child is answered for the second time only when its parent has asked for all that it wants, and waits.
    let opening = async {
        server.wait_for_requests_async(4).await;
        place.until_runs(1, |status| status == RunStatus::Waiting).await;
        gate.open();
    };
    let (ended, ()) = tokio::join!(place.perform(("parent", "Go."), Arc::new(())), opening);
    completed(ended.outcome.clone());
    let heard = answers(asked(&server, "parent").last().unwrap());
    assert_eq!(heard[..2], ["Yes.", "Yes."]);
    assert_eq!(
        ended.told(&heard[2]),
        "Error: the session ses_020202020202 is still busy; wait for its result first"
    );
}

#[tokio::test]
async fn callbacks_that_lead_to_callbacks_have_an_end() {
    let server = playing(|name, request| {
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
    let ended = perform(&Fixture::new(&agents, &server), "parent", "Go.").await;
    let starts = ended.events.iter().filter(|event| matches!(event.body, EventBody::RunStart { .. })).count();
    // The 200 of one task, and the callback of the last.
    assert_eq!(starts, 201);
    completed(ended.outcome);
}

/// Looks whether the child's tool is still there when its parent goes on.
struct Looks {
    tool: Arc<Mutex<Weak<Played>>>,
    seen: Mutex<Vec<bool>>,
}

impl Watch for Looks {}

impl Progress for Looks {
    fn happened(&self, claim: &RunContext, body: &EventBody) {
        if claim.blueprint.name == "parent" && matches!(body, EventBody::Message { .. }) {
            self.seen.lock().unwrap().push(self.tool.lock().unwrap().upgrade().is_some());
        }
    }
}

#[tokio::test]
async fn the_tools_of_a_child_are_gone_when_it_has_ended() {
    let server = playing(|name, request| match (name, answers(request).len()) {
        ("parent", 0) => Step::tool(START, json!({"agent_name": "child", "prompt": "Act."})),
        ("parent", _) => Step::text("Done."),
        (_, 0) => Move::call("echo", json!({})).said(request),
        _ => Step::text("Acted."),
    });
    let agents: Vec<Value> =
        vec![agent("parent", &["child"], json!({})), agent("child", &[], json!({"tools": ["echo"]}))];
    let agents = agents.into_iter().map(|agent| (agent, on(&server))).collect();
    let tool = Arc::new(Mutex::new(Weak::new()));
    let made = tool.clone();
    let agency = Fixture::with(agents, ".", move |name| {
        if name != "child" {
            return Vec::new();
        }
        let echo = Played::echo("echo");
        *made.lock().unwrap() = Arc::downgrade(&echo);
        vec![echo]
    });
    let looks = Arc::new(Looks { tool, seen: Mutex::default() });
    let place = TestCoordinator::open(&Arc::new(agency)).await;
    let ended = place.perform(("parent", "Go."), looks.clone()).await;
    completed(ended.outcome.clone());
    assert_eq!(ended.statuses(&session(2)), ["completed"]);
    // Before there is one, and after it has ended.
    assert_eq!(*looks.seen.lock().unwrap(), [false, false]);
}

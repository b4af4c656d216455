//! Runs that another runner continues, from every event: no completed call is repeated.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use slipform_api::{
    Answer, AppendRequest, Appended, AttemptRef, ChildAnswer, ChildRequest, ClaimRequest, Claims, Heartbeat,
    HeartbeatAnswer, JournalPage, JournalRequest, LeaveRequest, RegisterRequest, Registered, RunnerApi,
};
use slipform_runner::{DriveOutcome, LadderRung, MemoryJournal, StopSignal};
use slipform_testkit::{ScriptedServer, Step};
use slipform_types::{
    AgentCard, BackendKind, ChildEnd, Event, EventBody, Outcome, RunErrorType, RunId, RunStatus, SessionId,
    StructuredOutput,
};

use crate::support::contexts::{TestRun, clock, drive_to_end, journal, rung, test_run};
use crate::support::fakes::{FakeTool, with_tools};
use crate::support::fixture::{agent, ladder_of, serve_agents};
use crate::support::model::{ModelTurn, answers};
use crate::support::outcome::{failed, names};

fn actor(protocol: &str) -> Value {
    json!({
        "name": "actor", "tools": ["echo", "late"], "protocol": protocol, "limits": {"max_steps": 6},
        "output_schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}},
    })
}

/// Starts a model that makes valid and invalid calls, then submits an invalid and a valid result. It decides
/// by the request, not by the number of requests.
fn model() -> ScriptedServer {
    ScriptedServer::respond(|request, _| {
        let several = request.body.get("tools").is_some();
        match answers(request).len() {
            0 => ModelTurn::call("echo", json!({"n": 0})).step(request),
            1 if several => {
                let calls = [("echo", json!({"n": 1})), ("absent", json!({})), ("late", json!({"n": 2}))];
                ModelTurn::Call(calls.to_vec()).step(request)
            }
            1 => ModelTurn::call("late", json!({"n": 2})).step(request),
            2 if !several => ModelTurn::call("absent", json!({})).step(request),
            _ if !request.prompt().contains("<output-validation-error>") => {
                ModelTurn::Submit(json!({"ok": "yes"})).step(request)
            }
            _ => ModelTurn::Submit(json!({"ok": true})).step(request),
        }
    })
}

struct Parts {
    server: ScriptedServer,
    tools: [Arc<FakeTool>; 2],
    context: TestRun,
}

impl Parts {
    fn new(protocol: &str) -> Parts {
        let server = model();
        let tools = [FakeTool::echo("echo"), FakeTool::echo("late")];
        let ladder = vec![rung("default", BackendKind::OpenAi, &server, StructuredOutput::Auto)];
        let context = with_tools(test_run(&actor(protocol), "Act.", json!({}), ladder), &tools);
        Parts { server, tools, context }
    }

    fn call_count(&self) -> usize {
        self.tools.iter().map(|tool| tool.call_count()).sum()
    }
}

fn count(events: &[Event], is_match: impl Fn(&EventBody) -> bool) -> usize {
    events.iter().filter(|event| is_match(&event.body)).count()
}

/// Returns the events after a round trip through JSON, as the next runner reads them.
fn stored_events(journal: &MemoryJournal) -> Vec<Event> {
    let events = journal.events();
    let text = serde_json::to_string(&events).unwrap();
    let read: Vec<Event> = serde_json::from_str(&text).unwrap();
    assert_eq!(read, events);
    read
}

fn is_reply(body: &EventBody) -> bool {
    matches!(body, EventBody::Message { .. })
}

fn is_answer(body: &EventBody) -> bool {
    matches!(body, EventBody::PostTool { tool_name, .. } if tool_name != "absent")
}

#[tokio::test]
async fn run_with_tools_continues_from_every_event() {
    for protocol in ["tools", "actions"] {
        let (whole, parts) = (journal(), Parts::new(protocol));
        let expected = drive_to_end(&parts.context, &whole, &StopSignal::default(), &()).await.unwrap();
        assert!(matches!(expected, Outcome::Completed(_)), "{protocol}: {expected:?}");
        let (requests, calls) = (parts.server.requests().len(), parts.call_count());
        let events = stored_events(&whole);
        for cut in 0..=events.len() {
            let what = format!("{protocol}, cut after {:?}", names(&events[..cut]));
            let parts = Parts::new(protocol);
            let journal = MemoryJournal::with_events(clock(), events[..cut].to_vec());
            let outcome = drive_to_end(&parts.context, &journal, &StopSignal::default(), &()).await.unwrap();
            assert_eq!(outcome, expected, "{what}");
            let made = journal.events();
            assert_eq!(made[..cut], events[..cut], "{what}");
            assert_eq!(parts.server.requests().len(), requests - count(&events[..cut], is_reply), "{what}");
            assert_eq!(parts.call_count(), calls - count(&events[..cut], is_answer), "{what}");
            assert_eq!(count(&made, is_reply), requests, "{what}");
            assert_eq!(count(&made, is_answer), calls, "{what}");
        }
    }
}

#[tokio::test]
async fn changed_tool_definition_fails_the_run() {
    for protocol in ["tools", "actions"] {
        let (whole, parts) = (journal(), Parts::new(protocol));
        drive_to_end(&parts.context, &whole, &StopSignal::default(), &()).await.unwrap();
        let events = stored_events(&whole);
        let begun = names(&events).iter().position(|name| name == "attempt_started").unwrap() + 1;
        let ended = names(&events).iter().position(|name| name == "result").unwrap();
        for cut in begun..=ended {
            let parts = Parts::new(protocol);
            let changed = FakeTool::with_hash(FakeTool::echo("late"), "sha256:other");
            let context = with_tools(parts.context.clone(), &[parts.tools[0].clone(), changed]);
            let journal = MemoryJournal::with_events(clock(), events[..cut].to_vec());
            let outcome = drive_to_end(&context, &journal, &StopSignal::default(), &()).await.unwrap();
            let what = format!("{protocol}, cut after {:?}", names(&events[..cut]));
            assert_eq!(parts.server.requests().len() + parts.call_count(), 0, "{what}");
            if cut == ended {
                // A result that was already decided stands.
                assert!(matches!(outcome, Outcome::Completed(_)), "{what}");
                continue;
            }
            let failure = failed(outcome);
            assert_eq!(failure.error.kind, RunErrorType::ToolFailed, "{what}");
            let message = "the definition of the tool 'late' has changed since the run began";
            assert_eq!(failure.error.message, message, "{what}");
        }
    }
}

/// A coordinator that accepts children, each call id once: a repeated delegation returns the existing child.
#[derive(Clone)]
struct ChildCoordinator {
    memory: MemoryJournal,
    ladder: Vec<LadderRung>,
    children: Arc<Mutex<BTreeMap<String, TestRun>>>,
}

impl RunnerApi for ChildCoordinator {
    fn register<'a>(&'a self, request: &'a RegisterRequest) -> Answer<'a, Registered> {
        self.memory.register(request)
    }

    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Answer<'a, Claims> {
        self.memory.claim(request)
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Answer<'a, HeartbeatAnswer> {
        self.memory.heartbeat(heartbeat)
    }

    fn append<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        self.memory.append(request)
    }

    fn finish<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        self.memory.finish(request)
    }

    fn park<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        self.memory.park(attempt)
    }

    fn release<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        self.memory.release(attempt)
    }

    fn delegate<'a>(&'a self, request: &'a ChildRequest) -> Answer<'a, ChildAnswer> {
        let TestRun { session_id, run_id, .. } = self.child(request);
        Box::pin(std::future::ready(Ok(ChildAnswer::Accepted { session_id, run_id })))
    }

    fn journal<'a>(&'a self, request: &'a JournalRequest) -> Answer<'a, JournalPage> {
        self.memory.journal(request)
    }

    fn leave<'a>(&'a self, request: &'a LeaveRequest) -> Answer<'a, ()> {
        self.memory.leave(request)
    }
}

impl ChildCoordinator {
    fn child(&self, request: &ChildRequest) -> TestRun {
        let mut children = self.children.lock().unwrap();
        let number = u8::try_from(children.len()).unwrap() + 1;
        let make = || {
            assert_eq!(request.session_id, None, "the child is not resumed");
            let agent = agent(&request.agent_name, &[], json!({}));
            let input = request.parameters["prompt"].as_str().unwrap();
            let run = test_run(&agent, input, json!({}), self.ladder.clone());
            let (session_id, run_id) =
                (SessionId::from_random([1 + number; 6]), RunId::from_random([129 + number; 6]));
            TestRun { session_id, run_id, ..run }
        };
        children.entry(request.call_id.clone()).or_insert_with(make).clone()
    }

    async fn drive(&self, run: &TestRun) -> DriveOutcome {
        run.drive(Arc::new(self.clone()), &self.memory, &StopSignal::default(), &()).await.unwrap()
    }

    /// Drives the parent, and its children whenever it waits for them.
    async fn run(&self, parent: &TestRun) -> Outcome {
        loop {
            if let DriveOutcome::Ended(outcome) = self.drive(parent).await {
                return outcome;
            }
            let children: Vec<TestRun> = self.children.lock().unwrap().values().cloned().collect();
            let has_ended = |run: &RunId| {
                let is_end = |body: &EventBody| matches!(body, EventBody::ChildCompleted(end) if end.child_run_id == *run);
                count(&self.memory.events(), is_end) > 0
            };
            let waiting =
                children.iter().find(|child| !has_ended(&child.run_id)).expect("a child to wait for");
            let DriveOutcome::Ended(Outcome::Completed(success)) = self.drive(waiting).await else {
                panic!("the child did not complete")
            };
            let end = ChildEnd {
                agent_name: waiting.blueprint.name.clone(),
                child_session_id: waiting.session_id.clone(),
                child_run_id: waiting.run_id.clone(),
                status: RunStatus::Completed,
                result_text: success.result_text,
                result_data: success.result_data,
                error: None,
            };
            let body = EventBody::ChildCompleted(Box::new(end));
            self.memory.write(&parent.session_id, &parent.run_id, vec![body]);
        }
    }
}

/// Creates a parent with two children, delegated under this protocol and mode.
fn family(protocol: &str, mode: &'static str) -> (ScriptedServer, ChildCoordinator, TestRun) {
    let by_actions = protocol == "actions";
    let server = serve_agents(move |name, request| match (name, answers(request).len()) {
        ("parent", received @ 0..2) if by_actions => Step::json(&json!({
            "action": "AGENT_CALL", "reasoning": "", "content": "Look.",
            "target_agent": if received == 0 { "left" } else { "right" }, "parameters": {"mode": mode},
        })),
        ("parent", 0) => {
            let start = |name: &str| json!({"agent_name": name, "prompt": "Look.", "mode": mode});
            Step::tool("start_agent_session", start("left")).and_tool("start_agent_session", start("right"))
        }
        ("parent", received) => {
            let text =
                if mode == "sync" { answers(request).join(" and ") } else { format!("{received} look") };
            if by_actions {
                Step::json(&json!({"action": "NORMAL_RESPONSE", "reasoning": "", "content": text}))
            } else {
                Step::text(text)
            }
        }
        (name, _) => Step::text(name),
    });
    let parent = agent("parent", &["left", "right"], json!({"protocol": protocol}));
    let card = |name: &str| AgentCard { name: name.to_owned(), ..AgentCard::default() };
    let agents = vec![card("left"), card("right")];
    let context = TestRun { agents, ..test_run(&parent, "Search.", json!({}), ladder_of(&server)) };
    let coordinator =
        ChildCoordinator { memory: journal(), ladder: ladder_of(&server), children: Arc::default() };
    (server, coordinator, context)
}

fn is_start_of(body: &EventBody, run: &RunId) -> bool {
    matches!(body, EventBody::ChildStarted { child_run_id, .. } if child_run_id == run)
}

async fn check_resume_from_every_event(protocol: &str, mode: &'static str, text: &str) {
    let (server, coordinator, context) = family(protocol, mode);
    let expected = coordinator.run(&context).await;
    let Outcome::Completed(success) = &expected else { panic!("{expected:?}") };
    assert_eq!(success.result_text.as_deref(), Some(text));
    let requests = server.requests().len();
    let events = stored_events(&coordinator.memory);
    let children = coordinator.children.lock().unwrap().clone();
    let ends = count(&events, |body| matches!(body, EventBody::ChildCompleted(_)));
    assert_eq!(ends, if mode == "sync" { 2 } else { 0 });
    for cut in 0..=events.len() {
        let what = format!("{protocol}, {mode}, cut after {:?}", names(&events[..cut]));
        let (server, coordinator, context) = family(protocol, mode);
        // Only the runner died; the coordinator still knows the children that it accepted.
        let accepted: BTreeMap<String, TestRun> = children
            .iter()
            .map(|(call, child)| (call.clone(), TestRun { ladder: context.ladder.clone(), ..child.clone() }))
            .filter(|(_, child)| events[..cut].iter().any(|event| is_start_of(&event.body, &child.run_id)))
            .collect();
        let memory = MemoryJournal::with_events(clock(), events[..cut].to_vec());
        let coordinator =
            ChildCoordinator { memory, children: Arc::new(Mutex::new(accepted)), ..coordinator };
        assert_eq!(coordinator.run(&context).await, expected, "{what}");
        assert_eq!(server.requests().len(), requests - count(&events[..cut], is_reply), "{what}");
        let made = coordinator.memory.events();
        assert_eq!(count(&made, |body| matches!(body, EventBody::ChildStarted { .. })), 2, "{what}");
        assert_eq!(count(&made, |body| matches!(body, EventBody::ChildCompleted(_))), ends, "{what}");
    }
}

#[tokio::test]
async fn run_with_children_continues_from_every_event() {
    check_resume_from_every_event("tools", "sync", "left and right").await;
    check_resume_from_every_event("actions", "sync", "left and right").await;
    check_resume_from_every_event("tools", "callback", "2 look").await;
    check_resume_from_every_event("actions", "callback", "2 look").await;
}

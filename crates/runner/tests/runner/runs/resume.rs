//! Runs that are continued by somebody else, from every event on: nothing that was paid for is asked for again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use slipform_runner::{
    Accepted, Child, ChildTask, Coordinator, Driven, LadderRung, Memory, Reported, RunContext, StopSignal,
    drive, perform,
};
use slipform_testkit::{ScriptedServer, Step};
use slipform_types::{
    AgentCard, BackendKind, ChildEnd, Event, EventBody, Outcome, RunErrorType, RunId, RunStatus, SessionId,
    StructuredOutput,
};

use crate::support::contexts::{claim, clock, journal, rung};
use crate::support::fixture::{agent, on, playing};
use crate::support::model::{Move, answers};
use crate::support::parts::{Played, with_tools};
use crate::support::perform::{failed, names};

fn actor(protocol: &str) -> Value {
    json!({
        "name": "actor", "tools": ["echo", "late"], "protocol": protocol, "limits": {"max_steps": 6},
        "output_schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}},
    })
}

/// A model that calls well and badly, submits badly, and then well; by what it was asked, not by how often.
fn model() -> ScriptedServer {
    ScriptedServer::respond(|request, _| {
        let several = request.body.get("tools").is_some();
        match answers(request).len() {
            0 => Move::call("echo", json!({"n": 0})).said(request),
            1 if several => {
                let calls = [("echo", json!({"n": 1})), ("absent", json!({})), ("late", json!({"n": 2}))];
                Move::Call(calls.to_vec()).said(request)
            }
            1 => Move::call("late", json!({"n": 2})).said(request),
            2 if !several => Move::call("absent", json!({})).said(request),
            _ if !request.prompt().contains("<output-validation-error>") => {
                Move::Submit(json!({"ok": "yes"})).said(request)
            }
            _ => Move::Submit(json!({"ok": true})).said(request),
        }
    })
}

struct Parts {
    server: ScriptedServer,
    tools: [Arc<Played>; 2],
    claim: RunContext,
}

impl Parts {
    fn new(protocol: &str) -> Parts {
        let server = model();
        let tools = [Played::echo("echo"), Played::echo("late")];
        let ladder = vec![rung("default", BackendKind::OpenAi, &server, StructuredOutput::Auto)];
        let claim = with_tools(claim(&actor(protocol), "Act.", json!({}), ladder), &tools);
        Parts { server, tools, claim }
    }

    fn called(&self) -> usize {
        self.tools.iter().map(|tool| tool.called()).sum()
    }
}

fn count(events: &[Event], is_it: impl Fn(&EventBody) -> bool) -> usize {
    events.iter().filter(|event| is_it(&event.body)).count()
}

/// The events as whoever goes on finds them: written down and read again.
fn kept(journal: &Memory) -> Vec<Event> {
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
async fn a_run_with_tools_goes_on_from_every_event() {
    for protocol in ["tools", "actions"] {
        let (whole, parts) = (journal(), Parts::new(protocol));
        let expected = perform(&parts.claim, &whole, &StopSignal::default(), &()).await.unwrap();
        assert!(matches!(expected, Outcome::Completed(_)), "{protocol}: {expected:?}");
        let (requests, calls) = (parts.server.requests().len(), parts.called());
        let events = kept(&whole);
        for cut in 0..=events.len() {
            let what = format!("{protocol}, cut after {:?}", names(&events[..cut]));
            let parts = Parts::new(protocol);
            let journal = Memory::holding(clock(), events[..cut].to_vec());
            let outcome = perform(&parts.claim, &journal, &StopSignal::default(), &()).await.unwrap();
            assert_eq!(outcome, expected, "{what}");
            let made = journal.events();
            assert_eq!(made[..cut], events[..cut], "{what}");
            assert_eq!(parts.server.requests().len(), requests - count(&events[..cut], is_reply), "{what}");
            assert_eq!(parts.called(), calls - count(&events[..cut], is_answer), "{what}");
            assert_eq!(count(&made, is_reply), requests, "{what}");
            assert_eq!(count(&made, is_answer), calls, "{what}");
        }
    }
}

#[tokio::test]
async fn a_tool_that_has_changed_meanwhile_ends_the_run() {
    for protocol in ["tools", "actions"] {
        let (whole, parts) = (journal(), Parts::new(protocol));
        perform(&parts.claim, &whole, &StopSignal::default(), &()).await.unwrap();
        let events = kept(&whole);
        let begun = names(&events).iter().position(|name| name == "attempt_started").unwrap() + 1;
        let ended = names(&events).iter().position(|name| name == "result").unwrap();
        for cut in begun..=ended {
            let parts = Parts::new(protocol);
            let changed = Played::hashed(Played::echo("late"), "sha256:other");
            let claim = with_tools(parts.claim.clone(), &[parts.tools[0].clone(), changed]);
            let journal = Memory::holding(clock(), events[..cut].to_vec());
            let outcome = perform(&claim, &journal, &StopSignal::default(), &()).await.unwrap();
            let what = format!("{protocol}, cut after {:?}", names(&events[..cut]));
            assert_eq!(parts.server.requests().len() + parts.called(), 0, "{what}");
            if cut == ended {
                // What was decided by then stands.
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

/// A coordinator that keeps journals and takes children on, each call of a run once: what it has taken on before its
/// parent's runner died is not taken on again.
struct Keeper {
    memory: Memory,
    ladder: Vec<LadderRung>,
    children: Mutex<BTreeMap<String, RunContext>>,
}

impl Coordinator for Keeper {
    fn journal<'a>(&'a self, session: &'a SessionId) -> Reported<'a, Vec<Event>> {
        self.memory.journal(session)
    }

    fn append<'a>(
        &'a self,
        session: &'a SessionId,
        run: &'a RunId,
        bodies: Vec<EventBody>,
    ) -> Reported<'a, ()> {
        self.memory.append(session, run, bodies)
    }

    fn delegate<'a>(&'a self, _: &'a RunContext, child: &'a Child) -> Reported<'a, Result<Accepted, String>> {
        let claim = self.child(&child.call_id, child);
        let accepted = Accepted { session_id: claim.session_id, run_id: claim.run_id };
        Box::pin(std::future::ready(Ok(Ok(accepted))))
    }
}

impl Keeper {
    fn child(&self, call_id: &str, child: &Child) -> RunContext {
        let mut children = self.children.lock().unwrap();
        let number = u8::try_from(children.len()).unwrap() + 1;
        let make = || {
            let ChildTask::Start { parameters } = &child.task else { panic!("{child:?}") };
            let (agent, input) =
                (agent(&child.agent_name, &[], json!({})), parameters["prompt"].as_str().unwrap());
            let claim = claim(&agent, input, json!({}), self.ladder.clone());
            let (session_id, run_id) =
                (SessionId::from_random([1 + number; 6]), RunId::from_random([129 + number; 6]));
            RunContext { session_id, run_id, ..claim }
        };
        children.entry(call_id.to_owned()).or_insert_with(make).clone()
    }

    /// Drives the parent, and its children whenever it waits for them.
    async fn run(&self, parent: &RunContext) -> Outcome {
        loop {
            if let Driven::Ended(outcome) = drive(parent, self, &StopSignal::default(), &()).await.unwrap() {
                return outcome;
            }
            let children: Vec<RunContext> = self.children.lock().unwrap().values().cloned().collect();
            let ended = |run: &RunId| {
                let is_it = |body: &EventBody| matches!(body, EventBody::ChildCompleted(end) if end.child_run_id == *run);
                count(&self.memory.events(), is_it) > 0
            };
            let waiting = children.iter().find(|child| !ended(&child.run_id)).expect("a child to wait for");
            let Driven::Ended(Outcome::Completed(success)) =
                drive(waiting, self, &StopSignal::default(), &()).await.unwrap()
            else {
                panic!("the child does not end")
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
            self.append(&parent.session_id, &parent.run_id, vec![body]).await.unwrap();
        }
    }
}

/// A parent with two children, asked for as it can, and in the mode that it wants.
fn family(protocol: &str, mode: &'static str) -> (ScriptedServer, Keeper, RunContext) {
    let by_actions = protocol == "actions";
    let server = playing(move |name, request| match (name, answers(request).len()) {
        ("parent", heard @ 0..2) if by_actions => Step::json(&json!({
            "action": "AGENT_CALL", "reasoning": "", "content": "Look.",
            "target_agent": if heard == 0 { "left" } else { "right" }, "parameters": {"mode": mode},
        })),
        ("parent", 0) => {
            let start = |name: &str| json!({"agent_name": name, "prompt": "Look.", "mode": mode});
            Step::tool("start_agent_session", start("left")).and_tool("start_agent_session", start("right"))
        }
        ("parent", heard) => {
            let text = if mode == "sync" { answers(request).join(" and ") } else { format!("{heard} look") };
            match by_actions {
                true => Step::json(&json!({"action": "NORMAL_RESPONSE", "reasoning": "", "content": text})),
                false => Step::text(text),
            }
        }
        (name, _) => Step::text(name),
    });
    let parent = agent("parent", &["left", "right"], json!({"protocol": protocol}));
    let card = |name: &str| AgentCard { name: name.to_owned(), ..AgentCard::default() };
    let agents = vec![card("left"), card("right")];
    let claim = RunContext { agents, ..claim(&parent, "Search.", json!({}), on(&server)) };
    let keeper = Keeper { memory: journal(), ladder: on(&server), children: Mutex::default() };
    (server, keeper, claim)
}

fn started(body: &EventBody, run: &RunId) -> bool {
    matches!(body, EventBody::ChildStarted { child_run_id, .. } if child_run_id == run)
}

async fn goes_on_from_every_event(protocol: &str, mode: &'static str, text: &str) {
    let (server, keeper, claim) = family(protocol, mode);
    let expected = keeper.run(&claim).await;
    let Outcome::Completed(success) = &expected else { panic!("{expected:?}") };
    assert_eq!(success.result_text.as_deref(), Some(text));
    let requests = server.requests().len();
    let events = kept(&keeper.memory);
    let children = keeper.children.into_inner().unwrap();
    let ends = count(&events, |body| matches!(body, EventBody::ChildCompleted(_)));
    assert_eq!(ends, if mode == "sync" { 2 } else { 0 });
    for cut in 0..=events.len() {
        let what = format!("{protocol}, {mode}, cut after {:?}", names(&events[..cut]));
        let (server, keeper, claim) = family(protocol, mode);
        // The coordinator has not died, only the runner: it knows what it has taken on.
        let taken: BTreeMap<String, RunContext> = children
            .iter()
            .map(|(call, child)| (call.clone(), RunContext { ladder: claim.ladder.clone(), ..child.clone() }))
            .filter(|(_, child)| events[..cut].iter().any(|event| started(&event.body, &child.run_id)))
            .collect();
        let memory = Memory::holding(clock(), events[..cut].to_vec());
        let keeper = Keeper { memory, children: Mutex::new(taken), ..keeper };
        assert_eq!(keeper.run(&claim).await, expected, "{what}");
        assert_eq!(server.requests().len(), requests - count(&events[..cut], is_reply), "{what}");
        let made = keeper.memory.events();
        assert_eq!(count(&made, |body| matches!(body, EventBody::ChildStarted { .. })), 2, "{what}");
        assert_eq!(count(&made, |body| matches!(body, EventBody::ChildCompleted(_))), ends, "{what}");
    }
}

#[tokio::test]
async fn a_run_with_children_goes_on_from_every_event() {
    goes_on_from_every_event("tools", "sync", "left and right").await;
    goes_on_from_every_event("actions", "sync", "left and right").await;
    goes_on_from_every_event("tools", "callback", "2 look").await;
    goes_on_from_every_event("actions", "callback", "2 look").await;
}

//! An in-memory coordinator for tests: it keeps journals, checks fencing tokens and fails on request.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use slipform_api::{
    Answer, AppendRequest, Appended, AttemptRef, Beat, ChildAnswer, ChildRequest, ClaimRequest, Claims, Code,
    EncodedAssignment, Error, Heartbeat, HeartbeatAnswer, JournalPage, JournalRequest, LeaveRequest,
    RegisterRequest, Registered, RunnerApi,
};
use slipform_types::{
    AgentCard, Blueprint, Contract, Event, EventBody, RunId, RunOverrides, RunType, SessionId,
};
use tokio::sync::watch;
use tokio::time::Instant;

/// Time limit for waiting on an event. The clock is paused, so waiting takes no real time.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn run(number: u8) -> RunId {
    RunId::from_random([number; 6])
}

pub(crate) fn session(number: u8) -> SessionId {
    SessionId::from_random([100 + number; 6])
}

/// A run that is queued or assigned.
#[derive(Default)]
pub(crate) struct FakeRun {
    pub(crate) events: Vec<Event>,
    pub(crate) token: i64,
    pub(crate) number: i64,
    pub(crate) agents: Vec<AgentCard>,
    pub(crate) time_left_ms: Option<i64>,
    pub(crate) project_dir: Option<String>,
    /// A value to send instead of the journal.
    pub(crate) invalid_journal: Option<Value>,
}

/// A planned fault: the next call of an operation fails with `error`, after taking effect if `is_applied`.
struct Fault {
    operation: &'static str,
    error: Error,
    is_applied: bool,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) runs: BTreeMap<RunId, FakeRun>,
    queue: VecDeque<RunId>,
    pub(crate) stopping: HashSet<RunId>,
    /// All calls in order, such as `claim 2` or `append 1 attempt_started`.
    pub(crate) calls: Vec<String>,
    pub(crate) registrations: Vec<RegisterRequest>,
    pub(crate) children: Vec<ChildRequest>,
    pub(crate) child_answer: Option<ChildAnswer>,
    pub(crate) heartbeat_times: Vec<Instant>,
    /// Number of events per page of a journal; `None` for all.
    pub(crate) page_size: Option<usize>,
    faults: VecDeque<Fault>,
    /// Whether a claim returns all queued runs, ignoring the requested slots.
    pub(crate) ignores_slots: bool,
}

pub(crate) struct FakeApi {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

impl FakeApi {
    pub(crate) fn new() -> Arc<FakeApi> {
        Arc::new(FakeApi { state: Mutex::default(), changes: watch::Sender::new(0) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Submits a run of an agent.
    pub(crate) fn submit(&self, number: u8, agent: Value, contract: Option<Contract>) {
        let blueprint: Blueprint = serde_json::from_value(agent).unwrap();
        let input = format!("Do {number}.");
        let body = EventBody::RunStart {
            run_type: RunType::StartSession,
            blueprint: blueprint.into(),
            contract: contract.map(Into::into),
            parameters: json!({"prompt": input}),
            input,
            overrides: RunOverrides::default(),
            conversation: None,
        };
        self.state().runs.insert(run(number), FakeRun::default());
        self.write(&run(number), vec![body]);
        self.queue(number);
    }

    /// Queues a run for a runner.
    pub(crate) fn queue(&self, number: u8) {
        self.state().queue.push_back(run(number));
        self.notify();
    }

    /// Makes the next call of an operation fail. With `is_applied` it takes effect and only the answer is lost.
    pub(crate) fn fail(&self, operation: &'static str, code: Code, is_applied: bool) {
        let error = Error::new(code, format!("{operation} fails"));
        self.state().faults.push_back(Fault { operation, error, is_applied });
    }

    pub(crate) fn notify(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Waits until the state satisfies a condition.
    pub(crate) async fn until(&self, what: &str, is_met: impl Fn(&State) -> bool) {
        let mut changes = self.changes.subscribe();
        let waiting = async {
            while !is_met(&self.state()) {
                changes.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(TIME_MAX, waiting).await.is_err() {
            panic!("timed out waiting for {what}; calls: {:#?}", self.state().calls);
        }
    }

    /// Returns the calls of an operation.
    pub(crate) fn calls(&self, operation: &str) -> Vec<String> {
        let state = self.state();
        state.calls.iter().filter(|call| call.split(' ').next() == Some(operation)).cloned().collect()
    }

    /// Returns the names of a run's events.
    pub(crate) fn names(&self, number: u8) -> Vec<String> {
        self.state().runs[&run(number)].events.iter().map(|event| name(&event.body)).collect()
    }

    pub(crate) fn last(&self, number: u8) -> EventBody {
        self.state().runs[&run(number)].events.last().unwrap().body.clone()
    }

    pub(crate) async fn ended(&self, number: u8) -> EventBody {
        let is_over = |state: &State| {
            let events = &state.runs[&run(number)].events;
            matches!(events.last().map(|event| &event.body), Some(EventBody::RunCompleted { .. }))
        };
        self.until(&format!("the end of run {number}"), is_over).await;
        self.last(number)
    }

    /// Appends events of the coordinator itself.
    pub(crate) fn write(&self, id: &RunId, bodies: Vec<EventBody>) {
        let mut state = self.state();
        let run_state = state.runs.get_mut(id).unwrap();
        let session_id = session((1..255).find(|number| run(*number) == *id).unwrap());
        for body in bodies {
            let (seq, timestamp) = (run_state.events.len() as u64 + 1, "2026-01-01T00:00:00.000Z".to_owned());
            run_state.events.push(Event {
                seq,
                session_id: session_id.clone(),
                run_id: id.clone(),
                timestamp,
                body,
            });
        }
    }

    /// Records a call and takes the fault that was planned for it, with its `is_applied`.
    fn record(&self, operation: &'static str, more: &str) -> Option<(Error, bool)> {
        let mut state = self.state();
        state.calls.push(format!("{operation} {more}").trim_end().to_owned());
        let index = state.faults.iter().position(|fault| fault.operation == operation);
        let fault = index.and_then(|index| state.faults.remove(index));
        drop(state);
        self.notify();
        fault.map(|fault| (fault.error, fault.is_applied))
    }

    /// Answers a call: with the planned fault, before or after `apply`, or with the result of `apply`.
    fn answer<'a, T: Send + 'a>(
        &self,
        operation: &'static str,
        more: &str,
        apply: impl FnOnce() -> Result<T, Error>,
    ) -> Answer<'a, T> {
        let fault = self.record(operation, more);
        let answer = match fault {
            Some((error, false)) => Err(error),
            Some((error, true)) => apply().and(Err(error)),
            None => apply(),
        };
        self.notify();
        Box::pin(std::future::ready(answer))
    }

    fn check_token(&self, run_id: &RunId, token: i64) -> Result<(), Error> {
        match self.state().runs.get(run_id) {
            Some(run_state) if run_state.token == token => Ok(()),
            _ => Err(Error::new(Code::StaleAttempt, "another attempt owns the run")),
        }
    }

    fn store(&self, request: &AppendRequest) -> Result<Appended, Error> {
        self.check_token(&request.run_id, request.token)?;
        let last = self.state().runs[&request.run_id].number;
        if request.number != last {
            assert_eq!(request.number, last + 1, "append numbers have no gaps");
            self.state().runs.get_mut(&request.run_id).unwrap().number = request.number;
            self.write(&request.run_id, request.events.clone());
        }
        let state = self.state();
        let stop = state.stopping.contains(&request.run_id);
        Ok(Appended { last_seq: state.runs[&request.run_id].events.len() as i64, stop })
    }

    fn assign(&self, slots: usize) -> Vec<EncodedAssignment> {
        let mut state = self.state();
        let limit = if state.ignores_slots { usize::MAX } else { slots };
        let (mut claims, page_size) = (Vec::new(), state.page_size);
        while claims.len() < limit
            && let Some(id) = state.queue.pop_front()
        {
            let stop = state.stopping.contains(&id);
            let run_state = state.runs.get_mut(&id).unwrap();
            run_state.token += 1;
            run_state.number = 0;
            let (journal, journal_next) = match &run_state.invalid_journal {
                Some(value) => (vec![to_raw_value(value).unwrap()], None),
                None => page(&run_state.events, 0, page_size),
            };
            claims.push(EncodedAssignment {
                run_id: id,
                token: run_state.token,
                session_id: run_state.events[0].session_id.clone(),
                project_dir: run_state.project_dir.clone(),
                agents: run_state.agents.clone(),
                commands: Vec::new(),
                time_left_ms: run_state.time_left_ms,
                stop,
                journal,
                journal_next,
            });
        }
        claims
    }
}

/// Returns a page of a journal, and the number of its last event if more follow.
fn page(events: &[Event], after: i64, size: Option<usize>) -> (Vec<Box<RawValue>>, Option<i64>) {
    let rest = &events[usize::try_from(after).unwrap()..];
    let shown = &rest[..rest.len().min(size.unwrap_or(usize::MAX))];
    let next = (shown.len() < rest.len()).then(|| after + shown.len() as i64);
    (shown.iter().map(|event| to_raw_value(event).unwrap()).collect(), next)
}

pub(crate) fn name(body: &EventBody) -> String {
    serde_json::to_value(body).unwrap()["event_type"].as_str().unwrap().to_owned()
}

fn describe(request: &AppendRequest) -> String {
    let names: Vec<String> = request.events.iter().map(name).collect();
    format!("{} {}", request.number, names.join(","))
}

impl RunnerApi for FakeApi {
    fn register<'a>(&'a self, request: &'a RegisterRequest) -> Answer<'a, Registered> {
        self.answer("register", "", || {
            self.state().registrations.push(request.clone());
            Ok(Registered { runner_id: "rnr_1".to_owned(), lease_ms: 10_000, heartbeat_ms: 1_000 })
        })
    }

    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Answer<'a, Claims> {
        let fault = self.record("claim", &request.slots.to_string());
        Box::pin(async move {
            if let Some((error, _)) = fault {
                return Err(error);
            }
            let mut changes = self.changes.subscribe();
            let arrival = changes.wait_for(|_| !self.state().queue.is_empty());
            let _ = tokio::time::timeout(Duration::from_millis(request.wait_ms), arrival).await;
            Ok(Claims { claims: self.assign(request.slots as usize) })
        })
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Answer<'a, HeartbeatAnswer> {
        let beat = |attempt: &AttemptRef| {
            let stop = self.state().stopping.contains(&attempt.run_id);
            let stale = self.check_token(&attempt.run_id, attempt.token).is_err();
            Beat { run_id: attempt.run_id.clone(), token: attempt.token, stop, stale }
        };
        self.state().heartbeat_times.push(Instant::now());
        let runs = heartbeat.attempts.len().to_string();
        self.answer("heartbeat", &runs, || {
            Ok(HeartbeatAnswer { attempts: heartbeat.attempts.iter().map(beat).collect() })
        })
    }

    fn append<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        self.answer("append", &describe(request), || self.store(request))
    }

    fn finish<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        self.answer("finish", &describe(request), || self.store(request))
    }

    fn park<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        self.answer("park", attempt.run_id.as_str(), || {
            self.check_token(&attempt.run_id, attempt.token)?;
            self.state().runs.get_mut(&attempt.run_id).unwrap().token += 1;
            Ok(())
        })
    }

    fn release<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        self.answer("release", attempt.run_id.as_str(), || {
            self.check_token(&attempt.run_id, attempt.token)?;
            let mut state = self.state();
            state.runs.get_mut(&attempt.run_id).unwrap().token += 1;
            state.queue.push_back(attempt.run_id.clone());
            Ok(())
        })
    }

    fn delegate<'a>(&'a self, request: &'a ChildRequest) -> Answer<'a, ChildAnswer> {
        self.answer("delegate", &request.call_id, || {
            let mut state = self.state();
            state.children.push(request.clone());
            Ok(state.child_answer.clone().unwrap())
        })
    }
    fn journal<'a>(&'a self, request: &'a JournalRequest) -> Answer<'a, JournalPage> {
        self.answer("journal", &request.after.to_string(), || {
            self.check_token(&request.run_id, request.token)?;
            let state = self.state();
            let (events, next) = page(&state.runs[&request.run_id].events, request.after, state.page_size);
            Ok(JournalPage { events, next })
        })
    }

    fn leave<'a>(&'a self, request: &'a LeaveRequest) -> Answer<'a, ()> {
        self.answer("leave", &request.runner_id, || Ok(()))
    }
}

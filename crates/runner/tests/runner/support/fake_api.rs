//! A coordinator in memory that does what a test says: it keeps journals, fences attempts, and fails on request.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use slipform_api::{
    Answer, AppendRequest, Appended, Assignment, AttemptRef, Beat, ChildAnswer, ChildRequest, ClaimRequest,
    Claims, Code, Error, Heartbeat, HeartbeatAnswer, RegisterRequest, Registered, RunnerApi,
};
use slipform_types::{AgentCard, Blueprint, Contract, Event, EventBody, RunId, RunType, SessionId};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a test waits for what should come; on a clock that does not run by itself that costs nothing.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn run(number: u8) -> RunId {
    RunId::from_random([number; 6])
}

pub(crate) fn session(number: u8) -> SessionId {
    SessionId::from_random([100 + number; 6])
}

/// A run that waits for a runner, or has one.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) events: Vec<Event>,
    pub(crate) token: i64,
    pub(crate) number: i64,
    pub(crate) agents: Vec<AgentCard>,
    pub(crate) time_left_ms: Option<i64>,
    pub(crate) project_dir: Option<String>,
    /// Bytes that stand where its journal should be.
    pub(crate) spoilt: Option<Value>,
}

/// A fault: what is answered the next time that a verb is used, and whether the coordinator did it all the same.
struct Fault {
    verb: &'static str,
    error: Error,
    is_done: bool,
}

#[derive(Default)]
pub(crate) struct Book {
    pub(crate) runs: BTreeMap<RunId, Kept>,
    queue: VecDeque<RunId>,
    pub(crate) stopping: HashSet<RunId>,
    /// Everything that was said, in order: `claim 2`, `append 1 attempt_started`.
    pub(crate) said: Vec<String>,
    pub(crate) hellos: Vec<RegisterRequest>,
    pub(crate) children: Vec<ChildRequest>,
    pub(crate) child_answer: Option<ChildAnswer>,
    pub(crate) beats: Vec<Instant>,
    faults: VecDeque<Fault>,
    /// Whether claims are given although nobody has asked for so many.
    pub(crate) is_generous: bool,
}

pub(crate) struct FakeApi {
    book: Mutex<Book>,
    news: watch::Sender<u64>,
}

impl FakeApi {
    pub(crate) fn new() -> Arc<FakeApi> {
        Arc::new(FakeApi { book: Mutex::default(), news: watch::Sender::new(0) })
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// A run of an agent is asked for.
    pub(crate) fn submit(&self, number: u8, agent: Value, contract: Option<Contract>) {
        let blueprint: Blueprint = serde_json::from_value(agent).unwrap();
        let input = format!("Do {number}.");
        let body = EventBody::RunStart {
            run_type: RunType::StartSession,
            blueprint: blueprint.into(),
            contract: contract.map(Into::into),
            parameters: json!({"prompt": input}),
            input,
        };
        self.book().runs.insert(run(number), Kept::default());
        self.write(&run(number), vec![body]);
        self.queue(number);
    }

    /// A run waits for a runner.
    pub(crate) fn queue(&self, number: u8) {
        self.book().queue.push_back(run(number));
        self.changed();
    }

    /// The next use of a verb fails; with `is_done` only its answer is lost.
    pub(crate) fn fail(&self, verb: &'static str, code: Code, is_done: bool) {
        let error = Error::new(code, format!("{verb} fails"));
        self.book().faults.push_back(Fault { verb, error, is_done });
    }

    pub(crate) fn changed(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    /// Waits until the book says so.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Book) -> bool) {
        let mut news = self.news.subscribe();
        let waiting = async {
            while !is_so(&self.book()) {
                news.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("never came: {what}; said: {:#?}", self.book().said);
        }
    }

    /// What was said with this verb.
    pub(crate) fn said(&self, verb: &str) -> Vec<String> {
        let book = self.book();
        book.said.iter().filter(|said| said.split(' ').next() == Some(verb)).cloned().collect()
    }

    /// The names of a run's events.
    pub(crate) fn names(&self, number: u8) -> Vec<String> {
        self.book().runs[&run(number)].events.iter().map(|event| name(&event.body)).collect()
    }

    pub(crate) fn last(&self, number: u8) -> EventBody {
        self.book().runs[&run(number)].events.last().unwrap().body.clone()
    }

    pub(crate) async fn ended(&self, number: u8) -> EventBody {
        let is_over = |book: &Book| {
            let events = &book.runs[&run(number)].events;
            matches!(events.last().map(|event| &event.body), Some(EventBody::RunCompleted { .. }))
        };
        self.until(&format!("the end of run {number}"), is_over).await;
        self.last(number)
    }

    /// Writes what the coordinator itself has to say.
    pub(crate) fn write(&self, id: &RunId, bodies: Vec<EventBody>) {
        let mut book = self.book();
        let kept = book.runs.get_mut(id).unwrap();
        let session_id = session((1..255).find(|number| run(*number) == *id).unwrap());
        for body in bodies {
            let (seq, timestamp) = (kept.events.len() as u64 + 1, "2026-01-01T00:00:00.000Z".to_owned());
            kept.events.push(Event {
                seq,
                session_id: session_id.clone(),
                run_id: id.clone(),
                timestamp,
                body,
            });
        }
    }

    /// Notes what is said, and gives the fault that was planned for it: before it has an effect, or after.
    fn hear(&self, verb: &'static str, more: &str) -> Option<(Error, bool)> {
        let mut book = self.book();
        book.said.push(format!("{verb} {more}").trim_end().to_owned());
        let index = book.faults.iter().position(|fault| fault.verb == verb);
        let fault = index.and_then(|index| book.faults.remove(index));
        drop(book);
        self.changed();
        fault.map(|fault| (fault.error, fault.is_done))
    }

    /// Says what comes of a verb: the fault before or after `act`, or what `act` gives.
    fn answer<'a, T: Send + 'a>(
        &self,
        verb: &'static str,
        more: &str,
        act: impl FnOnce() -> Result<T, Error>,
    ) -> Answer<'a, T> {
        let fault = self.hear(verb, more);
        let answer = match fault {
            Some((error, false)) => Err(error),
            Some((error, true)) => act().and(Err(error)),
            None => act(),
        };
        self.changed();
        Box::pin(std::future::ready(answer))
    }

    fn fenced(&self, run_id: &RunId, token: i64) -> Result<(), Error> {
        match self.book().runs.get(run_id) {
            Some(kept) if kept.token == token => Ok(()),
            _ => Err(Error::new(Code::StaleAttempt, "somebody else has it")),
        }
    }

    fn store(&self, request: &AppendRequest) -> Result<Appended, Error> {
        self.fenced(&request.run_id, request.token)?;
        let last = self.book().runs[&request.run_id].number;
        if request.number != last {
            assert_eq!(request.number, last + 1, "numbers leave nothing out");
            self.book().runs.get_mut(&request.run_id).unwrap().number = request.number;
            self.write(&request.run_id, request.events.clone());
        }
        let book = self.book();
        let stop = book.stopping.contains(&request.run_id);
        Ok(Appended { last_seq: book.runs[&request.run_id].events.len() as i64, stop })
    }

    fn give(&self, slots: usize) -> Vec<Assignment> {
        let mut book = self.book();
        let most = if book.is_generous { usize::MAX } else { slots };
        let mut claims = Vec::new();
        while claims.len() < most
            && let Some(id) = book.queue.pop_front()
        {
            let stop = book.stopping.contains(&id);
            let kept = book.runs.get_mut(&id).unwrap();
            kept.token += 1;
            kept.number = 0;
            let journal = match &kept.spoilt {
                Some(value) => vec![to_raw_value(value).unwrap()],
                None => kept.events.iter().map(|event| to_raw_value(event).unwrap()).collect(),
            };
            claims.push(Assignment {
                run_id: id,
                token: kept.token,
                session_id: kept.events[0].session_id.clone(),
                project_dir: kept.project_dir.clone(),
                agents: kept.agents.clone(),
                time_left_ms: kept.time_left_ms,
                stop,
                journal,
            });
        }
        claims
    }
}

pub(crate) fn name(body: &EventBody) -> String {
    serde_json::to_value(body).unwrap()["event_type"].as_str().unwrap().to_owned()
}

fn told(request: &AppendRequest) -> String {
    let names: Vec<String> = request.events.iter().map(name).collect();
    format!("{} {}", request.number, names.join(","))
}

impl RunnerApi for FakeApi {
    fn register<'a>(&'a self, hello: &'a RegisterRequest) -> Answer<'a, Registered> {
        self.answer("register", "", || {
            self.book().hellos.push(hello.clone());
            Ok(Registered { runner_id: "rnr_1".to_owned(), lease_ms: 10_000, heartbeat_ms: 1_000 })
        })
    }

    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Answer<'a, Claims> {
        let fault = self.hear("claim", &request.slots.to_string());
        Box::pin(async move {
            if let Some((error, _)) = fault {
                return Err(error);
            }
            let mut news = self.news.subscribe();
            let arrival = news.wait_for(|_| !self.book().queue.is_empty());
            let _ = tokio::time::timeout(Duration::from_millis(request.wait_ms), arrival).await;
            Ok(Claims { claims: self.give(request.slots as usize) })
        })
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Answer<'a, HeartbeatAnswer> {
        let beat = |attempt: &AttemptRef| {
            let stop = self.book().stopping.contains(&attempt.run_id);
            let stale = self.fenced(&attempt.run_id, attempt.token).is_err();
            Beat { run_id: attempt.run_id.clone(), token: attempt.token, stop, stale }
        };
        self.book().beats.push(Instant::now());
        let runs = heartbeat.attempts.len().to_string();
        self.answer("heartbeat", &runs, || {
            Ok(HeartbeatAnswer { attempts: heartbeat.attempts.iter().map(beat).collect() })
        })
    }

    fn append<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        self.answer("append", &told(request), || self.store(request))
    }

    fn finish<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        self.answer("finish", &told(request), || self.store(request))
    }

    fn park<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        self.answer("park", attempt.run_id.as_str(), || {
            self.fenced(&attempt.run_id, attempt.token)?;
            self.book().runs.get_mut(&attempt.run_id).unwrap().token += 1;
            Ok(())
        })
    }

    fn release<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        self.answer("release", attempt.run_id.as_str(), || {
            self.fenced(&attempt.run_id, attempt.token)?;
            let mut book = self.book();
            book.runs.get_mut(&attempt.run_id).unwrap().token += 1;
            book.queue.push_back(attempt.run_id.clone());
            Ok(())
        })
    }

    fn delegate<'a>(&'a self, request: &'a ChildRequest) -> Answer<'a, ChildAnswer> {
        self.answer("delegate", &request.call_id, || {
            let mut book = self.book();
            book.children.push(request.clone());
            Ok(book.child_answer.clone().unwrap())
        })
    }
}

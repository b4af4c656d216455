//! A journal in memory, for runs without a coordinator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slipform_api::{
    Answer, AppendRequest, Appended, Assignment, AttemptRef, Beat, ChildAnswer, ChildRequest, ClaimRequest,
    Claims, Code, Error, Heartbeat, HeartbeatAnswer, Journal, JournalPage, JournalRequest, LeaveRequest,
    RegisterRequest, Registered, RunStart, RunnerApi,
};
use slipform_types::{Event, EventBody, RunId, SessionId};

use crate::clock::Clock;

/// Keeps the journals of sessions in memory. It implements [`RunnerApi`] for attempts at its runs: it has no queue, its
/// leases do not expire, and it refuses to start children. Clones share the events.
#[derive(Clone)]
pub struct MemoryJournal {
    clock: Arc<dyn Clock>,
    events: Arc<Mutex<Vec<Event>>>,
    /// Whether the events of attempts are kept.
    is_kept: bool,
}

impl MemoryJournal {
    /// Creates an empty journal.
    pub fn new(clock: Arc<dyn Clock>) -> MemoryJournal {
        MemoryJournal::with_events(clock, Vec::new())
    }

    /// Creates a journal with existing events.
    pub fn with_events(clock: Arc<dyn Clock>, events: Vec<Event>) -> MemoryJournal {
        MemoryJournal { clock, events: Arc::new(Mutex::new(events)), is_kept: true }
    }

    /// Creates an empty journal that acknowledges the events of attempts without keeping them, for runs that nothing reads or
    /// resumes later.
    pub fn without_attempts(clock: Arc<dyn Clock>) -> MemoryJournal {
        MemoryJournal { is_kept: false, ..MemoryJournal::new(clock) }
    }

    /// Returns the events of all sessions, in the order in which they were appended.
    pub fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    /// Appends the start of a run. The session exists from its first run on.
    pub fn submit(&self, session: &SessionId, run: &RunId, start: RunStart) {
        self.write(session, run, vec![start.into()]);
    }

    /// Returns the assignment of a submitted run.
    ///
    /// # Errors
    /// Returns an error if the run was not submitted.
    pub fn assignment(&self, session: &SessionId, run: &RunId) -> Result<Assignment, crate::Error> {
        let events = self.lock().iter().filter(|event| event.session_id == *session).cloned().collect();
        Ok(Assignment {
            run_id: run.clone(),
            token: 1,
            session_id: session.clone(),
            project_dir: None,
            agents: Vec::new(),
            commands: Vec::new(),
            time_left_ms: None,
            stop: false,
            journal: Journal::new(run, events)?,
            journal_next: None,
        })
    }

    /// Appends events to the journal of a session.
    pub fn write(&self, session: &SessionId, run: &RunId, bodies: Vec<EventBody>) {
        let mut events = self.lock();
        for body in bodies {
            let last = events.iter().rev().find(|event| event.session_id == *session);
            let seq = last.map_or(1, |event| event.seq + 1);
            let timestamp = self.clock.now();
            events.push(Event { seq, session_id: session.clone(), run_id: run.clone(), timestamp, body });
        }
    }

    /// Appends the events of an attempt to the session of its run.
    fn append_to_run(&self, request: &AppendRequest) -> Result<Appended, Error> {
        if !self.is_kept {
            return Ok(Appended { last_seq: request.number, stop: false });
        }
        let is_own = |event: &&Event| event.run_id == request.run_id;
        let session = self.lock().iter().rev().find(is_own).map(|event| event.session_id.clone());
        let session = session.ok_or_else(|| {
            Error::new(Code::RunNotFound, format!("run {} was not submitted", request.run_id))
        })?;
        self.write(&session, &request.run_id, request.events.clone());
        let last_seq = self.lock().last().map_or(0, |event| event.seq);
        Ok(Appended { last_seq: last_seq.try_into().unwrap_or(i64::MAX), stop: false })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunnerApi for MemoryJournal {
    fn register<'a>(&'a self, request: &'a RegisterRequest) -> Answer<'a, Registered> {
        let runner_id = request.runner_id.clone().unwrap_or_else(|| request.name.clone());
        ready(Ok(Registered { runner_id, lease_ms: u64::MAX, heartbeat_ms: u64::MAX }))
    }

    fn claim<'a>(&'a self, _: &'a ClaimRequest) -> Answer<'a, Claims> {
        ready(Ok(Claims { claims: Vec::new() }))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Answer<'a, HeartbeatAnswer> {
        let beats = heartbeat.attempts.iter().cloned().map(|AttemptRef { run_id, token }| Beat {
            run_id,
            token,
            stop: false,
            stale: false,
        });
        ready(Ok(HeartbeatAnswer { attempts: beats.collect() }))
    }

    fn append<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        ready(self.append_to_run(request))
    }

    fn finish<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        ready(self.append_to_run(request))
    }

    fn park<'a>(&'a self, _: &'a AttemptRef) -> Answer<'a, ()> {
        ready(Ok(()))
    }

    fn release<'a>(&'a self, _: &'a AttemptRef) -> Answer<'a, ()> {
        ready(Ok(()))
    }

    fn delegate<'a>(&'a self, _: &'a ChildRequest) -> Answer<'a, ChildAnswer> {
        ready(Ok(ChildAnswer::Refused { reason: "agents cannot be started here".to_owned() }))
    }

    fn journal<'a>(&'a self, _: &'a JournalRequest) -> Answer<'a, JournalPage> {
        ready(Ok(JournalPage { events: Vec::new(), next: None }))
    }

    fn leave<'a>(&'a self, _: &'a LeaveRequest) -> Answer<'a, ()> {
        ready(Ok(()))
    }
}

fn ready<'a, T: Send + 'a>(answer: Result<T, Error>) -> Answer<'a, T> {
    Box::pin(std::future::ready(answer))
}

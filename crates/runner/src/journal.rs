//! Whom a runner reports to.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use slipform_engine::Child;
use slipform_types::{Event, EventBody, RunId, SessionId};

use crate::clock::Clock;
use crate::error::Error;
use crate::run_context::RunContext;

/// The answer to a report.
pub type Reported<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A child that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its session.
    pub session_id: SessionId,
    /// Its run.
    pub run_id: RunId,
}

/// Keeps the journals of sessions, and takes on the runs of children.
pub trait Coordinator: Send + Sync {
    /// The session's journal so far; empty for one that nobody has worked on.
    fn journal<'a>(&'a self, session: &'a SessionId) -> Reported<'a, Vec<Event>>;

    /// Appends what happened. What was acknowledged is never lost.
    fn append<'a>(
        &'a self,
        session: &'a SessionId,
        run: &'a RunId,
        bodies: Vec<EventBody>,
    ) -> Reported<'a, ()>;

    /// Takes on the run of a child, or says why not in words that its parent can do something with.
    fn delegate<'a>(
        &'a self,
        parent: &'a RunContext,
        child: &'a Child,
    ) -> Reported<'a, Result<Accepted, String>>;
}

/// A coordinator inside the process that keeps journals and does nothing else: it takes no children on.
pub struct Memory {
    clock: Arc<dyn Clock>,
    events: Mutex<Vec<Event>>,
}

impl Memory {
    /// An empty journal.
    pub fn new(clock: Arc<dyn Clock>) -> Memory {
        Memory::holding(clock, Vec::new())
    }

    /// A journal that someone else began.
    pub fn holding(clock: Arc<dyn Clock>, events: Vec<Event>) -> Memory {
        Memory { clock, events: Mutex::new(events) }
    }

    /// Everything that happened so far, in all sessions.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, session: &SessionId, run: &RunId, bodies: Vec<EventBody>) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        for body in bodies {
            let last = events.iter().rev().find(|event| event.session_id == *session);
            let seq = last.map_or(1, |event| event.seq + 1);
            let timestamp = self.clock.now();
            events.push(Event { seq, session_id: session.clone(), run_id: run.clone(), timestamp, body });
        }
    }
}

impl Coordinator for Memory {
    fn journal<'a>(&'a self, session: &'a SessionId) -> Reported<'a, Vec<Event>> {
        let events = self.events().into_iter().filter(|event| event.session_id == *session).collect();
        Box::pin(std::future::ready(Ok(events)))
    }

    fn append<'a>(
        &'a self,
        session: &'a SessionId,
        run: &'a RunId,
        bodies: Vec<EventBody>,
    ) -> Reported<'a, ()> {
        self.write(session, run, bodies);
        Box::pin(std::future::ready(Ok(())))
    }

    fn delegate<'a>(&'a self, _: &'a RunContext, _: &'a Child) -> Reported<'a, Result<Accepted, String>> {
        Box::pin(std::future::ready(Ok(Err("there is nobody here who could start an agent".to_owned()))))
    }
}

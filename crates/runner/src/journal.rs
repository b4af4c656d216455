//! The interface through which a drive reads and appends events, and an in-memory implementation.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use slipform_engine::Child;
use slipform_types::{Event, EventBody, RunId, SessionId};

use crate::clock::Clock;
use crate::error::Error;
use crate::run_context::RunContext;

/// The future of a coordinator's answer.
pub type JournalFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A child run that the coordinator has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedChild {
    /// The child's session.
    pub session_id: SessionId,
    /// The child's run.
    pub run_id: RunId,
}

/// Keeps the journals of sessions and accepts child runs.
pub trait RunJournal: Send + Sync {
    /// Returns the session's journal; empty for a new session.
    fn journal<'a>(&'a self, session: &'a SessionId) -> JournalFuture<'a, Vec<Event>>;

    /// Appends events. Acknowledged events are durable.
    fn append<'a>(
        &'a self,
        session: &'a SessionId,
        run: &'a RunId,
        bodies: Vec<EventBody>,
    ) -> JournalFuture<'a, ()>;

    /// Starts or resumes a child run. The inner error is the refusal that the parent's model reads.
    fn delegate<'a>(
        &'a self,
        parent: &'a RunContext,
        child: &'a Child,
    ) -> JournalFuture<'a, Result<AcceptedChild, String>>;
}

/// An in-memory journal. It refuses to start children.
pub struct MemoryJournal {
    clock: Arc<dyn Clock>,
    events: Mutex<Vec<Event>>,
}

impl MemoryJournal {
    /// Creates an empty journal.
    pub fn new(clock: Arc<dyn Clock>) -> MemoryJournal {
        MemoryJournal::with_events(clock, Vec::new())
    }

    /// Creates a journal with existing events.
    pub fn with_events(clock: Arc<dyn Clock>, events: Vec<Event>) -> MemoryJournal {
        MemoryJournal { clock, events: Mutex::new(events) }
    }

    /// Returns the events of all sessions, in the order in which they were appended.
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

impl RunJournal for MemoryJournal {
    fn journal<'a>(&'a self, session: &'a SessionId) -> JournalFuture<'a, Vec<Event>> {
        let events = self.events().into_iter().filter(|event| event.session_id == *session).collect();
        Box::pin(std::future::ready(Ok(events)))
    }

    fn append<'a>(
        &'a self,
        session: &'a SessionId,
        run: &'a RunId,
        bodies: Vec<EventBody>,
    ) -> JournalFuture<'a, ()> {
        self.write(session, run, bodies);
        Box::pin(std::future::ready(Ok(())))
    }

    fn delegate<'a>(
        &'a self,
        _: &'a RunContext,
        _: &'a Child,
    ) -> JournalFuture<'a, Result<AcceptedChild, String>> {
        Box::pin(std::future::ready(Ok(Err("agents cannot be started here".to_owned()))))
    }
}

//! Whom a runner reports to.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use formwork_types::{Body, Event, RunId, SessionId};

use crate::clock::Clock;
use crate::error::Error;

/// The answer to a report.
pub type Reported<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Keeps a run's journal.
pub trait Coordinator: Send + Sync {
    /// The journal so far; empty for a run that nobody has worked on.
    fn journal<'a>(&'a self, run: &'a RunId) -> Reported<'a, Vec<Event>>;
    /// Appends what happened. What was acknowledged is never lost.
    fn append<'a>(&'a self, session: &'a SessionId, run: &'a RunId, bodies: Vec<Body>) -> Reported<'a, ()>;
}

/// A coordinator inside the process.
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

    /// Everything that happened so far.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Coordinator for Memory {
    fn journal<'a>(&'a self, run: &'a RunId) -> Reported<'a, Vec<Event>> {
        let events = self.events().into_iter().filter(|event| event.run_id == *run).collect();
        Box::pin(std::future::ready(Ok(events)))
    }

    fn append<'a>(&'a self, session: &'a SessionId, run: &'a RunId, bodies: Vec<Body>) -> Reported<'a, ()> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        for body in bodies {
            let seq = events.iter().filter(|event| event.session_id == *session).count() as u64 + 1;
            let timestamp = self.clock.now();
            events.push(Event { seq, session_id: session.clone(), run_id: run.clone(), timestamp, body });
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

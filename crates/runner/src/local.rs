//! Runs and the runs of their children, inside one process.

mod book;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use formwork_engine::{Child, ChildTask};
use formwork_types::{Body, Callback, Event, Outcome, RunId, SessionId};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::claim::Claim;
use crate::clock::Clock;
use crate::drive::{Driven, Progress, Stop, drive};
use crate::error::Error;
use crate::journal::{Accepted, Coordinator, Memory, Reported};
use book::Book;

/// Runs that are worked on at the same time. A parked run is none of them.
const SLOTS: usize = 4;

/// A run that is asked for.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    /// The agent.
    pub agent_name: String,
    /// The session to go on with; a new one where there is none.
    pub session_id: Option<SessionId>,
    /// What the agent is given.
    pub parameters: Value,
    /// What the result has to satisfy, where whoever asks says so.
    pub output_schema: Option<Value>,
    /// The same by name.
    pub output_schema_name: Option<String>,
}

/// The answer to a submission: a claim, or why there is none in words that a model can do something with.
pub type Admitted<'a> = Pin<Box<dyn Future<Output = Result<Claim, String>> + Send + 'a>>;

/// Someone who knows agents and makes claims of submissions.
pub trait Desk: Send + Sync {
    /// Makes a claim, with ids of its own.
    fn admit(&self, submission: Submission) -> Admitted<'_>;
}

/// A coordinator inside the process, with a few slots. What waits for a child holds none.
pub struct Local {
    memory: Memory,
    desk: Arc<dyn Desk>,
    book: Mutex<Book>,
    news: Notify,
}

impl Local {
    /// A coordinator whose children are admitted by `desk`.
    pub fn new(clock: Arc<dyn Clock>, desk: Arc<dyn Desk>) -> Local {
        Local { memory: Memory::new(clock), desk, book: Mutex::default(), news: Notify::new() }
    }

    /// Everything that happened so far, in all sessions.
    pub fn events(&self) -> Vec<Event> {
        self.memory.events()
    }

    /// Performs a run, its children, and what their callbacks lead to. Gives how the session's last run ended.
    ///
    /// # Errors
    /// When a run cannot be driven; the others are then abandoned.
    pub async fn run(
        self: &Arc<Self>,
        claim: Claim,
        stop: &Stop,
        progress: &Arc<dyn Progress>,
    ) -> Result<(Arc<Claim>, Outcome), Error> {
        let session = claim.session_id.clone();
        self.book().begin(Arc::new(claim.starting_now(None)));
        let mut working = JoinSet::new();
        loop {
            while working.len() < SLOTS
                && let Some(claim) = self.book().next()
            {
                let (local, stop, progress) = (self.clone(), stop.clone(), progress.clone());
                working.spawn(async move {
                    let driven = drive(&claim, &*local, &stop, &*progress).await;
                    (claim, driven)
                });
            }
            tokio::select! {
                // A run that delegates has put its child in the queue.
                () = self.news.notified() => {}
                joined = working.join_next() => {
                    let Some(joined) = joined else { break };
                    let (claim, driven) = joined.map_err(|error| Error::Tool(error.to_string()))?;
                    self.driven(claim, driven?, stop, &**progress).await;
                }
            }
        }
        self.book().outcome(&session).ok_or(Error::Stuck)
    }

    async fn driven(&self, claim: Arc<Claim>, driven: Driven, stop: &Stop, progress: &dyn Progress) {
        match driven {
            Driven::Parked => self.book().park(claim),
            Driven::Ended(outcome) => self.book().end(claim, outcome),
        }
        let ready = self.book().ready();
        for (claim, ends) in ready {
            let bodies: Vec<Body> = ends.into_iter().map(|end| Body::ChildCompleted(Box::new(end))).collect();
            bodies.iter().for_each(|body| progress.happened(&claim, body));
            self.memory.write(&claim.session_id, &claim.run_id, bodies);
            self.book().requeue(claim);
        }
        if !stop.is_requested() {
            self.call_back(progress).await;
        }
    }

    /// Resumes sessions whose children have ended while nobody worked on them.
    async fn call_back(&self, progress: &dyn Progress) {
        while let Some((session_id, agent_name, ends)) = self.next_callback() {
            let prompt = Callback(&ends).to_string();
            let parameters = json!({"prompt": prompt});
            let submission = Submission {
                agent_name: agent_name.clone(),
                session_id: Some(session_id.clone()),
                parameters,
                ..Submission::default()
            };
            // What the children found is in their sessions, whether or not the agent can be resumed.
            match self.desk.admit(submission).await {
                Ok(claim) => self.book().resume(Arc::new(claim.starting_now(None))),
                Err(reason) => progress.unheard(&agent_name, &reason),
            }
        }
    }

    /// On its own, so that the book is closed again before anyone is waited for.
    fn next_callback(&self) -> Option<(SessionId, String, Vec<formwork_types::ChildEnd>)> {
        self.book().callback()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Coordinator for Local {
    fn journal<'a>(&'a self, session: &'a SessionId) -> Reported<'a, Vec<Event>> {
        self.memory.journal(session)
    }

    fn append<'a>(&'a self, session: &'a SessionId, run: &'a RunId, bodies: Vec<Body>) -> Reported<'a, ()> {
        self.memory.append(session, run, bodies)
    }

    fn delegate<'a>(&'a self, parent: &'a Claim, child: &'a Child) -> Reported<'a, Result<Accepted, String>> {
        Box::pin(async move {
            if let Err(refusal) = self.book().reserve(parent, child) {
                return Ok(Err(refusal));
            }
            let (session_id, parameters) = match &child.task {
                ChildTask::Start { parameters } => (None, parameters.clone()),
                ChildTask::Resume { session_id, prompt } => {
                    (Some(session_id.clone()), json!({"prompt": prompt}))
                }
            };
            let admitted = self
                .desk
                .admit(Submission {
                    agent_name: child.agent_name.clone(),
                    session_id,
                    parameters,
                    output_schema: child.output_schema.clone(),
                    output_schema_name: child.output_schema_name.clone(),
                })
                .await;
            let claim = match admitted {
                Ok(claim) => Arc::new(claim.starting_now(parent.until)),
                Err(refusal) => {
                    self.book().release(parent, child);
                    return Ok(Err(refusal));
                }
            };
            let accepted = Accepted { session_id: claim.session_id.clone(), run_id: claim.run_id.clone() };
            self.book().begin_child(parent, child.execution_mode, claim);
            self.news.notify_one();
            Ok(Ok(accepted))
        })
    }
}

//! A runner at work: it claims runs from a coordinator, as many as it has room for, and drives them.

mod active_attempts;
mod attempt_executor;
mod claim_loop;
mod heartbeat;
mod registration;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipform_api::{Assignment, AttemptRef, Claims, RunnerApi};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::drive::{Progress, StopSignal};
use crate::error::Error;
use crate::job::ResourceProvider;
use active_attempts::ActiveAttempts;
use attempt_executor::{AttemptExecutor, AttemptFailure};
use claim_loop::Claiming;
use registration::Registration;

/// How long going home may take, in which all that is held is given back. What is not given back by then comes back
/// when its lease expires.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// How much of that time tasks may take to let go. What does not is not waited for: once it is given back, its token
/// is worth nothing.
const ENDING_MAX: Duration = Duration::from_secs(1);

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Its name, for people.
    pub name: String,
    /// How many runs it works on at a time.
    pub slots: usize,
    /// What it wants known of itself.
    pub details: Value,
    /// The id that it had before; none the first time.
    pub runner_id: Option<String>,
    /// How long it waits for work in one request, at most four seconds: one that is told to go home waits for the
    /// answer, because there may be work in it.
    pub claim_wait: Duration,
}

/// A runner that takes its work from a coordinator.
pub struct Worker {
    bench: Arc<AttemptExecutor>,
    link: Arc<Registration>,
    held: Arc<ActiveAttempts>,
    slots: usize,
    claim_wait: Duration,
    working: JoinSet<()>,
    /// Which attempt each task works on.
    tasks: HashMap<Id, AttemptRef>,
    /// Tells whoever waits for work that none is wanted any more.
    closing: watch::Sender<bool>,
}

impl Worker {
    /// A worker of a coordinator. Nothing is said to it yet.
    pub fn new(
        api: Arc<dyn RunnerApi>,
        resources: Arc<dyn ResourceProvider>,
        progress: Arc<dyn Progress>,
        options: WorkerOptions,
    ) -> Worker {
        let WorkerOptions { name, slots, details, runner_id, claim_wait } = options;
        let slots = slots.max(1);
        Worker {
            link: Arc::new(Registration::new(api.clone(), name, slots, details, runner_id)),
            bench: Arc::new(AttemptExecutor::new(api, resources, progress)),
            held: Arc::default(),
            slots,
            claim_wait,
            working: JoinSet::new(),
            tasks: HashMap::new(),
            closing: watch::Sender::new(false),
        }
    }

    /// How many attempts it works on, whenever that changes.
    pub fn attempts(&self) -> watch::Receiver<usize> {
        self.held.count()
    }

    /// Works until `shutdown` is there, and then gives back what it holds.
    ///
    /// # Errors
    /// When the coordinator does not want to know it from the beginning, or the way to it is broken. One that is away is
    /// waited for.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let mut shutdown = pin!(shutdown);
        tokio::select! {
            biased;
            () = &mut shutdown => return Ok(()),
            introduced = self.link.introduce() => introduced?,
        }
        // In a set, because that ends it even where nobody waits for this worker any more.
        let mut beating = JoinSet::new();
        beating.spawn(heartbeat::beat(self.link.clone(), self.held.clone()));
        let mut asked: Option<JoinHandle<Claims>> = None;
        let ended = loop {
            let free = self.slots.saturating_sub(self.working.len());
            if asked.is_none() && free > 0 {
                asked = Some(tokio::spawn(self.claiming(free).next()));
            }
            tokio::select! {
                biased;
                () = &mut shutdown => break Ok(()),
                Some(joined) = self.working.join_next_with_id() => self.ended(joined),
                claims = answered(&mut asked) => {
                    asked = None;
                    match claims {
                        Ok(claims) => self.begin(claims.claims, free),
                        Err(error) => break Err(Error::Broken(error.to_string())),
                    }
                }
                // It never ends by itself, and without it every lease would be lost.
                Some(Err(error)) = beating.join_next() => break Err(Error::Broken(error.to_string())),
            }
        };
        self.drain(asked).await;
        ended
    }

    fn claiming(&self, free: usize) -> Claiming {
        Claiming {
            link: self.link.clone(),
            slots: free.try_into().unwrap_or(u32::MAX),
            wait: self.claim_wait.min(claim_loop::WAIT_MAX),
            closing: self.closing.subscribe(),
        }
    }

    /// Begins to work on what was claimed. What there is no room for goes back.
    fn begin(&mut self, claims: Vec<Assignment>, free: usize) {
        for (index, work) in claims.into_iter().enumerate() {
            let (attempt, stop) = (reference(&work), StopSignal::default());
            if work.stop {
                stop.request();
            }
            let bench = self.bench.clone();
            let task = if index < free {
                self.working.spawn(bench.perform(work, stop.clone()))
            } else {
                tracing::error!(run_id = %attempt.run_id, "more work came than was asked for; it is given back");
                self.working.spawn(bench.release(attempt.clone()))
            };
            self.hold(attempt, stop, task);
        }
    }

    fn hold(&mut self, attempt: AttemptRef, stop: StopSignal, task: AbortHandle) {
        self.tasks.insert(task.id(), attempt.clone());
        self.held.insert(attempt, stop, task);
    }

    /// A task has ended: well, because it was aborted, or because it broke.
    fn ended(&mut self, joined: Result<(Id, ()), JoinError>) {
        let (id, error) = match joined {
            Ok((id, ())) => (id, None),
            Err(error) => (error.id(), Some(error)),
        };
        let Some(attempt) = self.tasks.remove(&id) else { return };
        self.held.remove(&attempt);
        if let Some(error) = error.filter(JoinError::is_panic) {
            let trouble = AttemptFailure { reason: format!("its attempt broke: {error}"), is_break: true };
            let task = self.working.spawn(self.bench.clone().give_back(attempt.clone(), trouble));
            self.hold(attempt, StopSignal::default(), task);
        }
    }

    /// Ends everything and gives it back, within a bounded time.
    async fn drain(&mut self, asked: Option<JoinHandle<Claims>>) {
        self.closing.send_replace(true);
        let deadline = Instant::now() + DRAIN_MAX;
        self.working.abort_all();
        let ending = async {
            while let Some(joined) = self.working.join_next_with_id().await {
                // Whoever has ended by itself holds nothing any more.
                if let (Ok((id, ())), tasks) = (joined, &mut self.tasks)
                    && let Some(attempt) = tasks.remove(&id)
                {
                    self.held.remove(&attempt);
                }
            }
        };
        let _ = tokio::time::timeout(ENDING_MAX, ending).await;
        let mut releasing = JoinSet::new();
        for attempt in self.held.list() {
            releasing.spawn(self.bench.clone().release(attempt));
        }
        let giving_back = async {
            if let Some(asked) = asked {
                let late = asked.await.map_or_else(|_| Vec::new(), |answer| answer.claims);
                for work in &late {
                    releasing.spawn(self.bench.clone().release(reference(work)));
                }
            }
            while releasing.join_next().await.is_some() {}
        };
        if tokio::time::timeout_at(deadline, giving_back).await.is_err() {
            tracing::warn!("not everything could be given back in time; leases will expire");
        }
    }
}

fn reference(work: &Assignment) -> AttemptRef {
    AttemptRef { run_id: work.run_id.clone(), token: work.token }
}

/// What whoever was asked for work answers; nothing while nobody is asked.
async fn answered(asked: &mut Option<JoinHandle<Claims>>) -> Result<Claims, JoinError> {
    match asked {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

//! What the server's thread and the test share: the script, and what has happened so far.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::recorded::Recorded;
use crate::script::{Behaviour, Route, Script};
use crate::step::Step;

/// How long a test waits for something to happen. Nothing here takes a second, so that whatever takes longer never
/// comes, and the test fails with a message in place of hanging.
const WAIT_MAX: Duration = Duration::from_secs(30);

pub(crate) struct State {
    behaviour: Mutex<Behaviour>,
    routes: Vec<Route>,
    models: Arc<Step>,
    record: bool,
    seen: Mutex<Seen>,
    changed: Condvar,
    changed_async: Notify,
}

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) requests: Vec<Arc<Recorded>>,
    pub(crate) other_requests: Vec<Arc<Recorded>>,
    /// Model requests, kept or not.
    pub(crate) received: usize,
    pub(crate) unexpected: usize,
    pub(crate) in_flight: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) abandoned: usize,
    pub(crate) connections: usize,
}

/// A request's step. A model request is in flight for as long as this lives.
pub(crate) struct Work {
    pub(crate) step: Arc<Step>,
    pub(crate) index: usize,
    in_flight: Option<Arc<State>>,
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(state) = self.in_flight.take() {
            state.update(|seen| seen.in_flight -= 1);
        }
    }
}

impl State {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            behaviour: Mutex::new(script.behaviour),
            routes: script.routes,
            models: Arc::new(Step::status(200).body(script.models.to_string())),
            record: script.record,
            seen: Mutex::default(),
            changed: Condvar::new(),
            changed_async: Notify::new(),
        }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        // A panic elsewhere is the test's failure already; the counts are still right.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        let result = change(&mut self.seen());
        self.changed.notify_all();
        self.changed_async.notify_waiters();
        result
    }

    pub(crate) fn note_connection(&self) {
        self.update(|seen| seen.connections += 1);
    }

    pub(crate) fn note_abandoned(&self) {
        self.update(|seen| seen.abandoned += 1);
    }

    /// Records a request and gives its step.
    pub(crate) fn take(self: &Arc<Self>, request: &Arc<Recorded>) -> Work {
        match self.fixed(request) {
            Some(step) => {
                self.update(|seen| seen.other_requests.extend(self.record.then(|| request.clone())));
                Work { step, index: 0, in_flight: None }
            }
            None => {
                let index = self.update(|seen| {
                    seen.requests.extend(self.record.then(|| request.clone()));
                    seen.in_flight += 1;
                    seen.max_in_flight = seen.max_in_flight.max(seen.in_flight);
                    seen.received += 1;
                    seen.received - 1
                });
                // Made before the script is asked, so that a responder that panics leaves no request in flight.
                let mut work = Work { step: self.models.clone(), index, in_flight: Some(self.clone()) };
                work.step = self.next(request, index);
                work
            }
        }
    }

    /// What is answered without a step: routes, the list of models, and paths that are not there.
    fn fixed(&self, request: &Recorded) -> Option<Arc<Step>> {
        let path = request.route();
        let route = self.routes.iter().find(|route| route.method == request.method && route.path == path);
        if let Some(route) = route {
            return Some(route.step.clone());
        }
        if request.method == "GET" && path.ends_with("/models") {
            return Some(self.models.clone());
        }
        if request.protocol().is_none() {
            return Some(Arc::new(Step::status(404)));
        }
        None
    }

    fn next(&self, request: &Recorded, index: usize) -> Arc<Step> {
        let mut behaviour = self.behaviour.lock().unwrap_or_else(PoisonError::into_inner);
        let step = match &mut *behaviour {
            Behaviour::Respond(respond) => Some(Arc::new(respond(request, index))),
            Behaviour::Steps { steps, repeat_last } => {
                let last = if *repeat_last { steps.last() } else { None };
                steps.get(index).or(last).cloned()
            }
        };
        step.unwrap_or_else(|| {
            self.update(|seen| seen.unexpected += 1);
            let message = format!("the script has no step for model request number {}", index + 1);
            Arc::new(Step::status(599).content_type("text/plain").body(message))
        })
    }

    /// Blocks until it holds; panics when it does not come to hold in time.
    pub(crate) fn wait(&self, what: &str, holds: impl Fn(&Seen) -> bool) {
        let waiting = self.changed.wait_timeout_while(self.seen(), WAIT_MAX, |seen| !holds(seen));
        let (seen, timeout) = waiting.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{}", late(what, &seen));
    }

    /// Like `wait`. Has to run where a runtime drives the time, the real one.
    pub(crate) async fn wait_async(&self, what: &str, holds: impl Fn(&Seen) -> bool) {
        let waiting = tokio::time::timeout(WAIT_MAX, async {
            loop {
                let changed = self.changed_async.notified();
                if holds(&self.seen()) {
                    return;
                }
                changed.await;
            }
        });
        let timed_out = waiting.await.is_err();
        assert!(!timed_out, "{}", late(what, &self.seen()));
    }
}

fn late(what: &str, seen: &Seen) -> String {
    format!(
        "waited {} s for {what}; so far {} model requests, {} abandoned, {} in flight",
        WAIT_MAX.as_secs(),
        seen.received,
        seen.abandoned,
        seen.in_flight
    )
}

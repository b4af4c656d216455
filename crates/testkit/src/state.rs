//! State that the server's thread and the test share: the script, and statistics of requests.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::recorded::Recorded;
use crate::script::{Behaviour, Route, Script};
use crate::step::Step;
use crate::wait::WAIT_MAX;

pub(crate) struct State {
    behaviour: Mutex<Behaviour>,
    routes: Vec<Route>,
    models: Arc<Step>,
    record: bool,
    statistics: Mutex<Statistics>,
    changed: Condvar,
    changed_async: Notify,
}

#[derive(Default)]
pub(crate) struct Statistics {
    pub(crate) requests: Vec<Arc<Recorded>>,
    pub(crate) other_requests: Vec<Arc<Recorded>>,
    /// Number of model requests, recorded or not.
    pub(crate) received: usize,
    pub(crate) unexpected: usize,
    pub(crate) in_flight: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) abandoned: usize,
    pub(crate) connections: usize,
}

/// A request's step. A model request counts as in flight while this value lives.
pub(crate) struct AssignedStep {
    pub(crate) step: Arc<Step>,
    pub(crate) index: usize,
    in_flight: Option<Arc<State>>,
}

impl Drop for AssignedStep {
    fn drop(&mut self) {
        if let Some(state) = self.in_flight.take() {
            state.update(|statistics| statistics.in_flight -= 1);
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
            statistics: Mutex::default(),
            changed: Condvar::new(),
            changed_async: Notify::new(),
        }
    }

    pub(crate) fn statistics(&self) -> MutexGuard<'_, Statistics> {
        // A panic on another thread already fails the test; the counts are still valid.
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update<T>(&self, change: impl FnOnce(&mut Statistics) -> T) -> T {
        let result = change(&mut self.statistics());
        self.changed.notify_all();
        self.changed_async.notify_waiters();
        result
    }

    pub(crate) fn record_connection(&self) {
        self.update(|statistics| statistics.connections += 1);
    }

    pub(crate) fn record_abandoned(&self) {
        self.update(|statistics| statistics.abandoned += 1);
    }

    /// Records a request and returns its step.
    pub(crate) fn assign(self: &Arc<Self>, request: &Arc<Recorded>) -> AssignedStep {
        match self.fixed_step(request) {
            Some(step) => {
                self.update(|statistics| {
                    statistics.other_requests.extend(self.record.then(|| request.clone()));
                });
                AssignedStep { step, index: 0, in_flight: None }
            }
            None => {
                let index = self.update(|statistics| {
                    statistics.requests.extend(self.record.then(|| request.clone()));
                    statistics.in_flight += 1;
                    statistics.max_in_flight = statistics.max_in_flight.max(statistics.in_flight);
                    statistics.received += 1;
                    statistics.received - 1
                });
                // Create this before calling the script, so that a panicking responder leaves no request in
                // flight.
                let mut assigned =
                    AssignedStep { step: self.models.clone(), index, in_flight: Some(self.clone()) };
                assigned.step = self.next(request, index);
                assigned
            }
        }
    }

    /// Returns the reply for requests that consume no step: routes, the model list and unknown paths.
    fn fixed_step(&self, request: &Recorded) -> Option<Arc<Step>> {
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
            self.update(|statistics| statistics.unexpected += 1);
            let message = format!("the script has no step for model request number {}", index + 1);
            Arc::new(Step::status(599).content_type("text/plain").body(message))
        })
    }

    /// Blocks until a condition holds; panics after `WAIT_MAX`.
    pub(crate) fn wait(&self, what: &str, is_met: impl Fn(&Statistics) -> bool) {
        let waiting =
            self.changed.wait_timeout_while(self.statistics(), WAIT_MAX, |statistics| !is_met(statistics));
        let (statistics, timeout) = waiting.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{}", timeout_message(what, &statistics));
    }

    /// Waits like `wait`, without blocking. The runtime's clock must not be paused.
    pub(crate) async fn wait_async(&self, what: &str, is_met: impl Fn(&Statistics) -> bool) {
        let waiting = tokio::time::timeout(WAIT_MAX, async {
            loop {
                let changed = self.changed_async.notified();
                if is_met(&self.statistics()) {
                    return;
                }
                changed.await;
            }
        });
        let timed_out = waiting.await.is_err();
        assert!(!timed_out, "{}", timeout_message(what, &self.statistics()));
    }
}

fn timeout_message(what: &str, statistics: &Statistics) -> String {
    format!(
        "waited {} s for {what}; so far {} model requests, {} abandoned, {} in flight",
        WAIT_MAX.as_secs(),
        statistics.received,
        statistics.abandoned,
        statistics.in_flight
    )
}

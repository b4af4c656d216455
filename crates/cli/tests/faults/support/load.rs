//! Clients that submit runs, retry when a connection breaks, and record the acknowledged runs.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

use serde_json::json;
use slipform_testkit::{wait_for, wait_until};

use crate::support::cluster::is_ready;
use crate::support::http::{self, Response};
use crate::support::random::Random;

/// The agents of the submitted runs, in turns.
const AGENT_NAMES: [&str; 6] = ["plain", "reader", "leader", "caller", "team", "strict"];

/// How long a coordinator holds a client's question whether its run has ended.
const LONG_POLL_SECONDS: u32 = 1;

/// A run that was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// The agent and a number, such as `leader-7`.
    pub(crate) task: String,
    pub(crate) run_id: String,
    pub(crate) session_id: String,
}

/// Submits a run until it is acknowledged, to each coordinator in turn and with the same idempotency key.
pub(crate) fn submit(addresses: &[SocketAddr], task: &str) -> Job {
    let mut targets = addresses.iter().cycle();
    wait_for(&format!("{task} is acknowledged"), || try_submit(*targets.next()?, task))
}

/// Submits a run; `None` if the coordinator or its database does not answer.
pub(crate) fn try_submit(address: SocketAddr, task: &str) -> Option<Job> {
    let response = post(address, "/runs", task)?;
    assert_eq!(response.status, 201, "{task} was refused: {}", response.body);
    let text = |name: &str| response.body[name].as_str().unwrap().to_owned();
    Some(Job { task: task.to_owned(), run_id: text("run_id"), session_id: text("session_id") })
}

/// Sends the request for a task with its idempotency key; `None` if the coordinator or its database does not answer.
fn post(address: SocketAddr, path: &str, task: &str) -> Option<Response> {
    let agent = task.split('-').next().unwrap();
    let request = json!({"type": "start_session", "agent_name": agent, "prompt": format!("[{task}] Go.")});
    let key = format!("Idempotency-Key: key-of-{task}\r\n");
    http::post(address, path, &key, &request).ok().filter(|response| response.status != 503)
}

/// Returns `Some` if a run has ended; `None` if it has not or the coordinator does not answer.
pub(crate) fn has_ended(address: SocketAddr, job: &Job) -> Option<()> {
    let response = http::get(address, &format!("/runs/{}", job.run_id)).ok()?;
    let status = response.body["status"].as_str()?;
    matches!(status, "completed" | "failed" | "stopped").then_some(())
}

/// Clients that submit runs until their [`LoadGuard`] is dropped.
pub(crate) struct Load {
    addresses: Vec<SocketAddr>,
    next: AtomicUsize,
    failures: AtomicUsize,
    state: Mutex<LoadState>,
    changed: Condvar,
}

#[derive(Default)]
struct LoadState {
    jobs: Vec<Job>,
    is_over: bool,
}

impl Load {
    pub(crate) fn new(addresses: Vec<SocketAddr>) -> Load {
        Load {
            addresses,
            next: AtomicUsize::new(0),
            failures: AtomicUsize::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Submits one run after the other, each after the end of the previous one.
    pub(crate) fn run_client(&self, mut random: Random) {
        while !self.is_over() {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            let task = format!("{}-{number}", AGENT_NAMES[number % AGENT_NAMES.len()]);
            let job = self.submit(&task);
            if random.below(4) == 0 {
                let again = self.submit(&task);
                assert_eq!(again.run_id, job.run_id, "the same key gives the same run");
            }
            self.state.lock().unwrap().jobs.push(job.clone());
            self.changed.notify_all();
            self.wait_for_end(self.addresses[random.below(self.addresses.len())], &job);
        }
    }

    /// Submits a run like [`submit`] and counts the failures.
    fn submit(&self, task: &str) -> Job {
        let mut targets = self.addresses.iter().cycle();
        wait_for(&format!("{task} is acknowledged"), || {
            let job = try_submit(*targets.next()?, task);
            self.count_failure(job.is_none());
            job
        })
    }

    /// Waits until a run has ended or the clients are to stop. The same request with the same key only waits.
    fn wait_for_end(&self, address: SocketAddr, job: &Job) {
        while !self.is_over() {
            let answered = post(address, &format!("/runs?wait={LONG_POLL_SECONDS}"), &job.task);
            self.count_failure(answered.is_none());
            match answered.map(|response| response.status) {
                Some(200) => return,
                Some(status) => assert_eq!(status, 202, "{} is refused", job.task),
                None => wait_until(&format!("{address} is ready"), || {
                    let is_ready = is_ready(address);
                    self.count_failure(!is_ready);
                    is_ready || self.is_over()
                }),
            }
        }
    }

    fn count_failure(&self, is_failure: bool) {
        self.failures.fetch_add(usize::from(is_failure), Ordering::SeqCst);
    }

    /// Returns a guard that stops the clients when it is dropped, even if the test panics.
    pub(crate) fn run_until_dropped(&self) -> LoadGuard<'_> {
        LoadGuard(self)
    }

    fn is_over(&self) -> bool {
        self.state.lock().unwrap().is_over
    }

    /// Returns the acknowledged runs.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        self.state.lock().unwrap().jobs.clone()
    }

    /// Returns the number of requests without an answer, or whose coordinator had no database.
    pub(crate) fn failures(&self) -> usize {
        self.failures.load(Ordering::SeqCst)
    }

    /// Waits until this many runs are acknowledged.
    pub(crate) fn wait_for_jobs(&self, count: usize) {
        let acknowledged = || self.state.lock().unwrap().jobs.len();
        wait_until(&format!("{count} runs are acknowledged"), || acknowledged() >= count);
    }

    /// Waits until this many requests have failed.
    pub(crate) fn wait_for_failures(&self, count: usize) {
        wait_until(&format!("{count} requests fail"), || self.failures() >= count);
    }

    /// Waits for the acknowledged run with this index; `None` if the clients stop before.
    pub(crate) fn next_job(&self, index: usize) -> Option<Job> {
        let state = self.state.lock().unwrap();
        let is_missing = |state: &mut LoadState| state.jobs.len() <= index && !state.is_over;
        self.changed.wait_while(state, is_missing).unwrap().jobs.get(index).cloned()
    }
}

/// Keeps the clients running while it exists.
pub(crate) struct LoadGuard<'a>(&'a Load);

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().is_over = true;
        self.0.changed.notify_all();
    }
}

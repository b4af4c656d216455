//! Clients that submit runs, retry when a connection breaks, and record the acknowledged runs.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::http;
use crate::random::Random;
use crate::wait::wait_until;

/// The agents of the submitted runs, in turns.
const AGENT_NAMES: [&str; 6] = ["plain", "reader", "leader", "caller", "team", "strict"];

/// The interval in which a client checks whether its run has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

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
    let agent = task.split('-').next().unwrap();
    let request = json!({"type": "start_session", "agent_name": agent, "prompt": format!("[{task}] Go.")});
    let mut targets = addresses.iter().cycle();
    wait_until(&format!("{task} is acknowledged"), || {
        let key = format!("Idempotency-Key: key-of-{task}\r\n");
        let response = http::post(*targets.next()?, "/runs", &key, &request).ok()?;
        match response.status {
            201 => {
                let text = |name: &str| response.body[name].as_str().unwrap().to_owned();
                Some(Job { task: task.to_owned(), run_id: text("run_id"), session_id: text("session_id") })
            }
            503 => None,
            status => panic!("{task} was refused with {status}: {}", response.body),
        }
    })
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
    is_over: AtomicBool,
    jobs: Mutex<Vec<Job>>,
}

impl Load {
    pub(crate) fn new(addresses: Vec<SocketAddr>) -> Load {
        Load { addresses, next: AtomicUsize::new(0), is_over: AtomicBool::new(false), jobs: Mutex::default() }
    }

    /// Submits one run after the other, each after the end of the previous one.
    pub(crate) fn run_client(&self, mut random: Random) {
        while !self.is_over() {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            let task = format!("{}-{number}", AGENT_NAMES[number % AGENT_NAMES.len()]);
            let job = submit(&self.addresses, &task);
            if random.below(4) == 0 {
                let again = submit(&self.addresses, &task);
                assert_eq!(again.run_id, job.run_id, "the same key gives the same run");
            }
            self.jobs.lock().unwrap().push(job.clone());
            let address = self.addresses[random.below(self.addresses.len())];
            while has_ended(address, &job).is_none() && !self.is_over() {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Returns a guard that stops the clients when it is dropped, even if the test panics.
    pub(crate) fn run_until_dropped(&self) -> LoadGuard<'_> {
        LoadGuard(self)
    }

    /// Returns whether the clients are to stop.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Returns the acknowledged runs.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        self.jobs.lock().unwrap().clone()
    }
}

/// Keeps the clients running while it exists.
pub(crate) struct LoadGuard<'a>(&'a Load);

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

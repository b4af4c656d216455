//! Clients: they ask for runs, ask again when their connection breaks, and keep what was acknowledged.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::http;
use crate::random::Random;
use crate::wait::until;

/// What is asked for, in turns.
const KINDS: [&str; 6] = ["plain", "looking", "leader", "caller", "team", "strict"];

/// How often a client looks whether its run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A run that was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// What it is, such as `leader-7`.
    pub(crate) task: String,
    pub(crate) run_id: String,
    pub(crate) session_id: String,
}

/// Asks for a run until it is acknowledged, each time somewhere else.
pub(crate) fn submit(addresses: &[SocketAddr], task: &str) -> Job {
    let kind = task.split('-').next().unwrap();
    let request = json!({"type": "start_session", "agent_name": kind, "prompt": format!("[{task}] Go.")});
    let mut places = addresses.iter().cycle();
    until(&format!("{task} is acknowledged"), || {
        let key = format!("Idempotency-Key: key-of-{task}\r\n");
        let answer = http::post(*places.next()?, "/runs", &key, &request).ok()?;
        match answer.status {
            201 => {
                let text = |name: &str| answer.body[name].as_str().unwrap().to_owned();
                Some(Job { task: task.to_owned(), run_id: text("run_id"), session_id: text("session_id") })
            }
            503 => None,
            status => panic!("{task} was refused with {status}: {}", answer.body),
        }
    })
}

/// Whether a run has ended; nothing where nobody answers.
pub(crate) fn has_ended(address: SocketAddr, job: &Job) -> Option<()> {
    let answer = http::get(address, &format!("/runs/{}", job.run_id)).ok()?;
    let status = answer.body["status"].as_str()?;
    matches!(status, "completed" | "failed" | "stopped").then_some(())
}

/// Clients that work until they are told to stop.
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

    /// Asks for one run after the other, each when the one before has ended.
    pub(crate) fn work(&self, mut random: Random) {
        while !self.is_over() {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            let task = format!("{}-{number}", KINDS[number % KINDS.len()]);
            let job = submit(&self.addresses, &task);
            if random.below(4) == 0 {
                let again = submit(&self.addresses, &task);
                assert_eq!(again.run_id, job.run_id, "the same key gives the same run");
            }
            self.jobs.lock().unwrap().push(job.clone());
            let address = self.addresses[random.below(self.addresses.len())];
            while has_ended(address, &job).is_none() && !self.is_over() {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }

    /// Lets clients finish what they are at when it is dropped, in a test that fails as well.
    pub(crate) fn until_dropped(&self) -> Working<'_> {
        Working(self)
    }

    /// Whether nothing more is asked for.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// What was acknowledged.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        self.jobs.lock().unwrap().clone()
    }
}

/// While it lives, clients ask for more.
pub(crate) struct Working<'a>(&'a Load);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

//! The load: workers that each create, claim, perform and finish one run after the other over one connection.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use crate::http::{Connection, member};
use crate::server::{Server, cpu_seconds};
use crate::work::{Bodies, REQUESTS, SUBMIT};

/// The duration and CPU time of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) runs: usize,
    pub(crate) took: Duration,
    /// CPU time of the server and of this program, in seconds.
    pub(crate) server_cpu: f64,
    pub(crate) client_cpu: f64,
}

impl Measured {
    pub(crate) fn rate(&self) -> f64 {
        self.runs as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn requests(&self) -> f64 {
        self.rate() * REQUESTS as f64
    }
}

/// Returns the number of commits of a server.
pub(crate) async fn commits(server: &Server) -> Result<u64> {
    let mut connection = Connection::open(server.address).await?;
    let response = connection.get("/metrics").await?;
    let line = response.body.lines().find_map(|line| line.strip_prefix("slipform_commits_total "));
    line.context("no slipform_commits_total in the metrics")?
        .parse()
        .context("slipform_commits_total is not a number")
}

/// A connection that creates runs and performs them as a runner.
pub(crate) struct Worker {
    pub(crate) connection: Connection,
    runner: String,
    bodies: Arc<Bodies>,
    text: String,
}

/// A claimed run with its fencing token.
pub(crate) struct Claimed {
    pub(crate) run: String,
    token: i64,
}

impl Worker {
    pub(crate) async fn open(address: SocketAddr, runner: &str, bodies: &Arc<Bodies>) -> Result<Worker> {
        let connection = Connection::open(address).await?;
        Ok(Worker { connection, runner: runner.to_owned(), bodies: bodies.clone(), text: String::new() })
    }

    /// Creates a run and returns the ids of the run and of its session.
    pub(crate) async fn create(&mut self) -> Result<(String, String)> {
        let body = self.connection.post_ok("/runs", SUBMIT).await?;
        Ok((member(body, "run_id")?.to_owned(), member(body, "session_id")?.to_owned()))
    }

    /// Claims one run with a long poll; `None` if none is available within `wait`.
    pub(crate) async fn claim(&mut self, wait: Duration) -> Result<Option<Claimed>> {
        let body = format!(r#"{{"runner_id":"{}","slots":1,"wait_ms":{}}}"#, self.runner, wait.as_millis());
        let body = self.connection.post_ok("/runner/claim", &body).await?;
        if body == r#"{"claims":[]}"# {
            return Ok(None);
        }
        let run = member(body, "run_id")?.to_owned();
        let token = body.split_once("\"token\":").and_then(|(_, rest)| rest.split(',').next());
        let token = token.and_then(|token| token.parse().ok()).context("a claim without a token")?;
        Ok(Some(Claimed { run, token }))
    }

    /// Appends the events of a run, one per request, and finishes it.
    pub(crate) async fn perform(&mut self, claimed: &Claimed) -> Result<()> {
        let bodies = self.bodies.clone();
        for (number, event) in bodies.appends.iter().enumerate() {
            self.write(claimed, number + 1, [event.as_str()].as_slice());
            self.connection.post_ok("/runner/append", &self.text).await?;
        }
        self.write(claimed, bodies.appends.len() + 1, &[&bodies.finish[0], &bodies.finish[1]]);
        self.connection.post_ok("/runner/finish", &self.text).await?;
        Ok(())
    }

    fn write(&mut self, claimed: &Claimed, number: usize, events: &[&str]) {
        let Claimed { run, token } = claimed;
        self.text.clear();
        let _ = write!(
            self.text,
            r#"{{"run_id":"{run}","token":{token},"number":{number},"events":[{}]}}"#,
            events.join(",")
        );
    }

    /// Creates a run, then claims and performs the run that has waited longest. Returns the created session.
    async fn run_once(&mut self) -> Result<String> {
        let (_, session) = self.create().await?;
        let claimed = loop {
            if let Some(claimed) = self.claim(Duration::from_secs(5)).await? {
                break claimed;
            }
        };
        self.perform(&claimed).await?;
        Ok(session)
    }
}

/// Registers a runner and returns its id.
pub(crate) async fn register(address: SocketAddr) -> Result<String> {
    let mut connection = Connection::open(address).await?;
    let request = r#"{"name":"load","slots":64,"details":{}}"#;
    Ok(member(connection.post_ok("/runner/register", request).await?, "runner_id")?.to_owned())
}

/// Performs `runs` runs over `connections` connections, and returns the measurement and the created sessions.
pub(crate) async fn run(server: &Server, connections: usize, runs: usize) -> Result<(Measured, Vec<String>)> {
    let runner = register(server.address).await?;
    let bodies = Arc::new(Bodies::new());
    let mut workers = Vec::new();
    for _ in 0..connections {
        workers.push(Worker::open(server.address, &runner, &bodies).await?);
    }
    let left = Arc::new(AtomicUsize::new(runs));
    let cpu = (cpu_seconds(&server.id().to_string())?, cpu_seconds("self")?);
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for mut worker in workers {
        let left = left.clone();
        let work = async move {
            let mut sessions = Vec::new();
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                sessions.push(worker.run_once().await?);
            }
            anyhow::Ok(sessions)
        };
        tasks.spawn(work);
    }
    let mut sessions = Vec::new();
    while let Some(done) = tasks.join_next().await {
        sessions.extend(done??);
    }
    let measured = Measured {
        runs,
        took: start.elapsed(),
        server_cpu: cpu_seconds(&server.id().to_string())? - cpu.0,
        client_cpu: cpu_seconds("self")? - cpu.1,
    };
    Ok((measured, sessions))
}

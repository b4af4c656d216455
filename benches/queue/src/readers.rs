//! Event streams during the load: each reader follows one session and must receive all of its events in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::http::Connection;
use crate::load::{self, Measured, Worker, register};
use crate::server::Server;
use crate::work::{Bodies, EVENTS};

/// The longest wait for the streams to open, and for their remaining events after the load.
const STREAM_WAIT: Duration = Duration::from_secs(20);

/// The load with readers, summed over all rounds.
pub(crate) struct Followed {
    pub(crate) measured: Measured,
    /// Readers that received every event.
    pub(crate) complete: usize,
    pub(crate) readers: usize,
    /// The highest memory of the server.
    pub(crate) memory_mib: f64,
}

/// Measures rounds of as many runs as readers. The readers of a round open their streams before its runs are claimed.
/// Each round creates the runs of the next one, so the mix of requests is the same as without readers.
pub(crate) async fn measure(
    server: &Server,
    connections: usize,
    readers: usize,
    rounds: usize,
) -> Result<Followed> {
    let mut sessions = create_runs(server, readers).await?;
    let mut followed: Option<Followed> = None;
    for _ in 0..rounds {
        let mut following = JoinSet::new();
        let opened = Arc::new(Semaphore::new(0));
        for session in sessions {
            following.spawn(follow(server.address, session, opened.clone()));
        }
        let all = opened.acquire_many(u32::try_from(readers)?);
        let _ = tokio::time::timeout(STREAM_WAIT, all).await.context("not all streams opened")??;
        let (measured, next) = load::run(server, connections, readers).await?;
        sessions = next;
        let memory_mib = server.memory_mib()?;
        let mut complete = 0;
        while let Ok(Some(done)) = tokio::time::timeout(STREAM_WAIT, following.join_next()).await {
            match done? {
                Ok(()) => complete += 1,
                Err(error) => eprintln!("reader failed: {error:#}"),
            }
        }
        following.abort_all();
        let total = followed.get_or_insert(Followed {
            measured: Measured { runs: 0, took: Duration::ZERO, server_cpu: 0.0, client_cpu: 0.0 },
            complete: 0,
            readers: 0,
            memory_mib: 0.0,
        });
        total.measured.runs += measured.runs;
        total.measured.took += measured.took;
        total.measured.server_cpu += measured.server_cpu;
        total.measured.client_cpu += measured.client_cpu;
        total.complete += complete;
        total.readers += readers;
        total.memory_mib = total.memory_mib.max(memory_mib);
    }
    finish_runs(server, readers).await?;
    followed.context("no rounds")
}

/// Creates runs without claiming them, and returns their sessions.
async fn create_runs(server: &Server, count: usize) -> Result<Vec<String>> {
    let runner = register(server.address).await?;
    let mut worker = Worker::open(server.address, &runner, &Arc::new(Bodies::new())).await?;
    let mut sessions = Vec::with_capacity(count);
    for _ in 0..count {
        sessions.push(worker.create().await?.1);
    }
    Ok(sessions)
}

/// Performs the runs that the last round has created.
async fn finish_runs(server: &Server, count: usize) -> Result<()> {
    let runner = register(server.address).await?;
    let mut worker = Worker::open(server.address, &runner, &Arc::new(Bodies::new())).await?;
    for _ in 0..count {
        let Some(claimed) = worker.claim(Duration::from_millis(10)).await? else { return Ok(()) };
        worker.perform(&claimed).await?;
    }
    Ok(())
}

/// Reads a session's stream until its run has ended.
async fn follow(address: SocketAddr, session: String, opened: Arc<Semaphore>) -> Result<()> {
    let connection = Connection::open(address).await?;
    let mut stream = connection.stream(&format!("/sessions/{session}/events/stream")).await?;
    let mut text = Vec::with_capacity(4_096);
    let (mut is_open, mut position, mut seen) = (false, 0, 0);
    loop {
        if stream.read_buf(&mut text).await? == 0 {
            bail!("{session}: the stream ended after {seen} events");
        }
        if !is_open {
            is_open = true;
            opened.add_permits(1);
        }
        // Processes complete lines only; the rest of the last line may still arrive.
        while let Some(length) = text[position..].iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&text[position..position + length])?;
            position += length + 1;
            let Some(id) = line.strip_prefix("id: ") else { continue };
            seen += 1;
            if id.trim().parse::<usize>()? != seen {
                bail!("{session}: received event {id} instead of {seen}");
            }
        }
        if seen == EVENTS && text.ends_with(b"\n\n\r\n") {
            return Ok(());
        }
    }
}

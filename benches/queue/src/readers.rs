//! Readers of streams beside the load: each follows one session and has to see all of its events, in order.

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

/// How long a reader waits for the rest after the load has ended.
const REST: Duration = Duration::from_secs(20);

/// What the readers came to.
pub(crate) struct Followed {
    pub(crate) measured: Measured,
    /// Readers that saw everything, of how many.
    pub(crate) complete: usize,
    pub(crate) readers: usize,
    pub(crate) memory_mib: f64,
}

/// Rounds of as many runs as there are readers. The runs of a round are followed from before they are claimed; the ones
/// that are created meanwhile are those of the next round: every request does what it does without readers.
pub(crate) async fn measure(
    server: &Server,
    connections: usize,
    readers: usize,
    rounds: usize,
) -> Result<Followed> {
    let mut sessions = ahead(server, readers).await?;
    let mut followed: Option<Followed> = None;
    for _ in 0..rounds {
        let mut following = JoinSet::new();
        let opened = Arc::new(Semaphore::new(0));
        for session in sessions {
            following.spawn(follow(server.address, session, opened.clone()));
        }
        let all = opened.acquire_many(u32::try_from(readers)?);
        let _ = tokio::time::timeout(REST, all).await.context("not all readers were let in")??;
        let (measured, next) = load::run(server, connections, readers).await?;
        sessions = next;
        let memory_mib = server.memory_mib()?;
        let mut complete = 0;
        while let Ok(Some(done)) = tokio::time::timeout(REST, following.join_next()).await {
            match done? {
                Ok(()) => complete += 1,
                Err(error) => eprintln!("a reader: {error:#}"),
            }
        }
        following.abort_all();
        let so_far = followed.get_or_insert(Followed {
            measured: Measured { runs: 0, took: Duration::ZERO, server_cpu: 0.0, client_cpu: 0.0 },
            complete: 0,
            readers: 0,
            memory_mib: 0.0,
        });
        so_far.measured.runs += measured.runs;
        so_far.measured.took += measured.took;
        so_far.measured.server_cpu += measured.server_cpu;
        so_far.measured.client_cpu += measured.client_cpu;
        so_far.complete += complete;
        so_far.readers += readers;
        so_far.memory_mib = so_far.memory_mib.max(memory_mib);
    }
    drain(server, readers).await?;
    followed.context("no rounds")
}

/// Creates runs that are claimed later.
async fn ahead(server: &Server, count: usize) -> Result<Vec<String>> {
    let runner = register(server.address).await?;
    let mut worker = Worker::open(server.address, &runner, &Arc::new(Bodies::new())).await?;
    let mut sessions = Vec::with_capacity(count);
    for _ in 0..count {
        sessions.push(worker.create().await?.1);
    }
    Ok(sessions)
}

/// Works on what the last round left.
async fn drain(server: &Server, count: usize) -> Result<()> {
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
    let (mut is_open, mut looked, mut seen) = (false, 0, 0);
    loop {
        if stream.read_buf(&mut text).await? == 0 {
            bail!("{session}: the stream ended after {seen} events");
        }
        if !is_open {
            is_open = true;
            opened.add_permits(1);
        }
        // Ids stand at the beginnings of lines, and a line may still be on its way.
        while let Some(length) = text[looked..].iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&text[looked..looked + length])?;
            looked += length + 1;
            let Some(id) = line.strip_prefix("id: ") else { continue };
            seen += 1;
            if id.trim().parse::<usize>()? != seen {
                bail!("{session}: event {id} came where {seen} should");
            }
        }
        if seen == EVENTS && text.ends_with(b"\n\n\r\n") {
            return Ok(());
        }
    }
}

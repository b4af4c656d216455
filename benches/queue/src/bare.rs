//! The peer of the SQLite store: a loop that writes the same rows and commits them in groups of the same size. It has no
//! requests and no checks, and reads nothing back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use rusqlite::{Connection, params};

use crate::work::Bodies;

/// The pause between two measured commits, so that they add little load.
const COMMIT_EVERY: Duration = Duration::from_millis(5);

const NOW: &str = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

fn open(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // The same values as in the store.
    connection.pragma_update(None, "cache_size", -4 * 1024)?;
    connection.pragma_update(None, "wal_autocheckpoint", 16_384)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// A thread that measures commits of one small row on the same disk, at the same time as another measurement.
pub(crate) struct Commits {
    thread: JoinHandle<Result<Vec<f64>>>,
    is_over: Arc<AtomicBool>,
}

impl Commits {
    pub(crate) fn start(path: PathBuf) -> Commits {
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = is_over.clone();
        let thread = std::thread::spawn(move || {
            let connection = open(&path)?;
            connection.execute_batch("CREATE TABLE small (number INTEGER PRIMARY KEY, text TEXT)")?;
            let mut times = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                let start = Instant::now();
                connection
                    .prepare_cached("INSERT INTO small (text) VALUES (?1)")?
                    .execute(["a small row of text"])?;
                times.push(start.elapsed().as_secs_f64());
                std::thread::sleep(COMMIT_EVERY);
            }
            Ok(times)
        });
        Commits { thread, is_over }
    }

    /// Stops the thread and returns the times of its commits in seconds, shortest first.
    pub(crate) fn end(self) -> Result<Vec<f64>> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut times = self.thread.join().map_err(|_| anyhow!("the commit thread panicked"))??;
        times.sort_by(f64::total_cmp);
        Ok(times)
    }
}

/// Copies a database, including changes that are only in its write-ahead log.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    Connection::open(from)?.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
    Ok(())
}

/// The ids of a run.
struct Ids {
    run: String,
    session: String,
}

/// Writes the rows of `runs` runs, `in_flight` of them concurrently. A step is the equivalent of one request, and each
/// commit contains `steps` of them. The database must have the store's tables and a run.
pub(crate) fn run(path: &Path, in_flight: usize, steps: usize, runs: usize) -> Result<Duration> {
    let connection = open(path)?;
    // `run_start` is the largest event and the same for all runs, so it is copied from a run of the store.
    let start: String = connection
        .query_row("SELECT body FROM events WHERE seq = 1 LIMIT 1", [], |row| row.get(0))
        .context("the template database has no run")?;
    let bodies = Bodies::new();
    let began = Instant::now();
    let mut done = 0;
    while done < runs {
        let group: Vec<Ids> = (done..runs.min(done + in_flight)).map(ids).collect();
        done += group.len();
        in_steps(&connection, &group, steps, |ids| create(&connection, ids, &start))?;
        in_steps(&connection, &group, steps, |ids| claim(&connection, ids))?;
        for (number, body) in bodies.appends.iter().enumerate() {
            in_steps(&connection, &group, steps, |ids| append(&connection, ids, number as i64 + 1, body))?;
        }
        in_steps(&connection, &group, steps, |ids| finish(&connection, ids, &bodies))?;
    }
    Ok(began.elapsed())
}

/// Returns ids that are spread like the random ids of the store, for the same load on the indexes.
fn ids(number: usize) -> Ids {
    let spread = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
    Ids { run: format!("run_{spread:012x}"), session: format!("ses_{spread:012x}") }
}

/// Applies `work` to a group of runs and commits after every `steps` of them.
fn in_steps(
    connection: &Connection,
    group: &[Ids],
    steps: usize,
    work: impl Fn(&Ids) -> Result<()>,
) -> Result<()> {
    group.chunks(steps.max(1)).try_for_each(|part| step(connection, part, &work))
}

fn step(connection: &Connection, group: &[Ids], work: impl Fn(&Ids) -> Result<()>) -> Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    group.iter().try_for_each(work)?;
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

fn create(connection: &Connection, Ids { run, session }: &Ids, start: &str) -> Result<()> {
    let sql = format!(
        "INSERT INTO sessions (session_id, agent_name, root_session_id, lineage, last_seq, active_run_id, last_run_id,
            created_at, updated_at) VALUES (?1, 'reviewer', ?1, '[\"reviewer\"]', 1, ?2, ?2, {NOW}, {NOW})"
    );
    connection.prepare_cached(&sql)?.execute(params![session, run])?;
    let sql = format!(
        "INSERT INTO runs (run_id, session_id, agent_name, type, status, mode, start_seq, available_at, created_at)
         VALUES (?1, ?2, 'reviewer', 'start_session', 'pending', 'async_poll', 1, {NOW}, {NOW})"
    );
    connection.prepare_cached(&sql)?.execute(params![run, session])?;
    event(connection, run, session, 1, start)
}

fn claim(connection: &Connection, Ids { run, .. }: &Ids) -> Result<()> {
    let sql = format!(
        "UPDATE runs SET status = 'claimed', available_at = NULL, runner_id = 'runner_1', token = 1, attempts = 1,
            lease_until = {NOW} + 15000, started_at = {NOW} WHERE run_id = ?1"
    );
    connection.prepare_cached(&sql)?.execute(params![run])?;
    Ok(())
}

fn append(connection: &Connection, Ids { run, session }: &Ids, number: i64, body: &str) -> Result<()> {
    let sql = format!(
        "UPDATE runs SET appends = ?2, lease_until = {NOW} + 15000, status = 'running' WHERE run_id = ?1"
    );
    connection.prepare_cached(&sql)?.execute(params![run, number])?;
    let sql = format!("UPDATE sessions SET last_seq = ?2, updated_at = {NOW} WHERE session_id = ?1");
    connection.prepare_cached(&sql)?.execute(params![session, number + 1])?;
    event(connection, run, session, number + 1, body)
}

fn finish(connection: &Connection, Ids { run, session }: &Ids, bodies: &Bodies) -> Result<()> {
    let number = bodies.appends.len() as i64 + 1;
    let sql = format!(
        "UPDATE sessions SET last_seq = ?2, active_run_id = NULL, updated_at = {NOW} WHERE session_id = ?1"
    );
    connection.prepare_cached(&sql)?.execute(params![session, number + 2])?;
    event(connection, run, session, number + 1, &bodies.finish[0])?;
    event(connection, run, session, number + 2, &bodies.finish[1])?;
    let sql = format!(
        "UPDATE runs SET status = 'completed', appends = ?2, retry_count = 0, end_seq = ?3, finished_at = {NOW},
            lease_until = NULL, runner_id = NULL, backend = NULL, escalations = 0, missing_submits = 0,
            input_tokens = 0, output_tokens = 0 WHERE run_id = ?1"
    );
    connection.prepare_cached(&sql)?.execute(params![run, number, number + 2])?;
    Ok(())
}

fn event(connection: &Connection, run: &str, session: &str, seq: i64, body: &str) -> Result<()> {
    let sql = format!(
        "INSERT INTO events (session_id, seq, run_id, at, kind, body) VALUES (?1, ?2, ?3, {NOW}, ?4, ?5)"
    );
    // Bodies begin with `{"event_type":"KIND"`.
    let kind = body.split('"').nth(3).unwrap_or_default();
    connection.prepare_cached(&sql)?.execute(params![session, seq, run, kind, body])?;
    Ok(())
}

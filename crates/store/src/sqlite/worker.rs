//! The threads that work on a database.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::checkpoint::Checkpoints;
use super::connection::SqliteConnection;
use super::job::Job;
use crate::error::Error;
use crate::tx::{self, Tx};

/// Jobs of one commit. More would make the first one wait for too long.
const JOBS_PER_COMMIT_MAX: usize = 256;

type Jobs = Receiver<Box<dyn Job>>;
type Group = Vec<Box<dyn Job>>;

/// Performs jobs until the store is dropped: whatever waits when the first one begins is committed with it, since a
/// commit costs far more than a job.
pub(crate) fn write(
    connection: Connection,
    mut checkpoints: Option<Checkpoints>,
    jobs: &Jobs,
    news: &Arc<watch::Sender<u64>>,
    commits: &AtomicU64,
    runtime: &Handle,
) {
    let mut tx = Tx::new(tx::Connection::Sqlite(SqliteConnection::new(connection)));
    while let Ok(first) = jobs.recv() {
        tx.has_news = false;
        let mut group = vec![first];
        let committed = commit(&mut tx, jobs, &mut group);
        if committed.is_err() {
            let _ = batch(&mut tx, "ROLLBACK");
        }
        let has_news = tx.has_news && committed.is_ok();
        commits.fetch_add(1, Ordering::Relaxed);
        let news = has_news.then(|| news.clone());
        // Elsewhere: this thread is the one that all wait for.
        runtime.spawn(async move {
            group.into_iter().for_each(|job| job.answer(committed.clone()));
            if let Some(news) = news {
                news.send_modify(|number| *number += 1);
            }
        });
        if let (Some(checkpoints), tx::Connection::Sqlite(connection)) = (&mut checkpoints, &tx.connection) {
            checkpoints.look(&connection.connection);
        }
    }
}

/// Commits what waits. Savepoints cost as much as small jobs do and hardly ever matter: only where one of a group fails
/// is the group done again, each job in one of its own.
fn commit(tx: &mut Tx, jobs: &Jobs, group: &mut Group) -> Result<(), Error> {
    batch(tx, "BEGIN IMMEDIATE")?;
    let mut done = 0;
    while done < group.len() {
        if !group[done].perform(tx) || is_over(tx) {
            let _ = batch(tx, "ROLLBACK");
            return commit_apart(tx, group);
        }
        done += 1;
        if done == group.len() && done < JOBS_PER_COMMIT_MAX {
            group.extend(jobs.try_recv());
        }
    }
    batch(tx, "COMMIT")
}

/// Commits a group so that the failure of one undoes nothing of the others.
fn commit_apart(tx: &mut Tx, group: &mut Group) -> Result<(), Error> {
    batch(tx, "BEGIN IMMEDIATE")?;
    for job in group {
        batch(tx, "SAVEPOINT job")?;
        let stays = job.perform(tx);
        if is_over(tx) {
            // A full disk, for one, ends the whole transaction.
            return Err(Error::Unavailable("SQLite gave the transaction up".to_owned()));
        }
        if !stays {
            batch(tx, "ROLLBACK TO job")?;
        }
        batch(tx, "RELEASE job")?;
    }
    batch(tx, "COMMIT")
}

/// Performs jobs that only read, until the store is dropped.
pub(crate) fn read(connection: Connection, jobs: &Mutex<Jobs>) {
    let mut tx = Tx::new(tx::Connection::Sqlite(SqliteConnection::new(connection)));
    loop {
        // Whoever waits holds the lock, and gives it to the next one as soon as it has something to do.
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut job) = next else { return };
        // One transaction, so that all that it reads is of the same moment.
        let begun = batch(&mut tx, "BEGIN").map(|()| job.perform(&mut tx));
        let _ = batch(&mut tx, "ROLLBACK");
        job.answer(begun.map(drop));
    }
}

fn batch(tx: &mut Tx, sql: &'static str) -> Result<(), Error> {
    match &mut tx.connection {
        tx::Connection::Sqlite(connection) => connection.execute(sql, &[]).map(drop),
        tx::Connection::Postgres(_) => Ok(()),
    }
}

fn is_over(tx: &Tx) -> bool {
    matches!(&tx.connection, tx::Connection::Sqlite(connection) if connection.connection.is_autocommit())
}

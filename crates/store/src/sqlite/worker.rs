//! The database threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::checkpoint::{self, Checkpoints};
use super::connection::SqliteConnection;
use super::files::DatabaseFiles;
use super::job::Job;
use super::time::DatabaseTime;
use crate::error::Error;
use crate::tx::{self, Tx};

/// Maximum number of jobs per commit, which bounds the latency of the first one.
const JOBS_PER_COMMIT_MAX: usize = 256;

/// What the writer checks around each commit.
pub(crate) struct CommitChecks {
    /// `None` for an in-memory database.
    pub(crate) files: Option<DatabaseFiles>,
    pub(crate) time: DatabaseTime,
}

impl CommitChecks {
    fn check_files(&self) -> Result<(), Error> {
        self.files.as_ref().map_or(Ok(()), DatabaseFiles::check)
    }

    /// Moves the stored times if the machine's clock has jumped, before an operation compares them with it.
    fn synchronize(&self, tx: &mut Tx) -> Result<(), Error> {
        match &mut tx.connection {
            tx::Connection::Sqlite(connection) if self.time.has_jumped() => {
                self.time.synchronize(&mut connection.connection)
            }
            _ => Ok(()),
        }
    }
}

type Jobs = Receiver<Box<dyn Job>>;
type Group = Vec<Box<dyn Job>>;

/// Runs jobs until the store is dropped. All jobs that are queued when the first one starts share its commit,
/// because a commit costs far more than a job.
pub(crate) fn write(
    connection: Connection,
    checks: &CommitChecks,
    mut checkpoints: Option<Checkpoints>,
    jobs: &Jobs,
    notifications: &Arc<watch::Sender<u64>>,
    commits: &AtomicU64,
    runtime: &Handle,
) {
    let mut tx = Tx::new(tx::Connection::Sqlite(SqliteConnection::new(connection)));
    while let Ok(first) = jobs.recv() {
        tx.has_notification = false;
        let mut group = vec![first];
        // Checked before, so that nothing is added to files that are not in place, and after, so that no commit to
        // such files is reported as stored.
        let mut committed = checks
            .check_files()
            .and_then(|()| checks.synchronize(&mut tx))
            .and_then(|()| commit(&mut tx, jobs, &mut group));
        if committed.is_err() {
            let _ = execute(&mut tx, "ROLLBACK");
        }
        committed = committed.and_then(|()| checks.check_files());
        let has_notification = tx.has_notification && committed.is_ok();
        commits.fetch_add(1, Ordering::Relaxed);
        let notifications = has_notification.then(|| notifications.clone());
        // On the runtime, because all operations wait for this thread.
        runtime.spawn(async move {
            group.into_iter().for_each(|job| job.answer(committed.clone()));
            if let Some(notifications) = notifications {
                notifications.send_modify(|number| *number += 1);
            }
        });
        if let (Some(checkpoints), tx::Connection::Sqlite(connection)) = (&mut checkpoints, &tx.connection) {
            checkpoints.after_commit(&connection.connection);
        }
    }
    drop(checkpoints);
    if let tx::Connection::Sqlite(connection) = &tx.connection
        && checks.check_files().is_ok()
    {
        checkpoint::truncate_wal(&connection.connection);
    }
}

/// Runs the queued jobs and commits them together. Savepoints cost as much as small jobs. So they are used
/// only after a job of the group has failed: the group is then repeated with one savepoint per job.
fn commit(tx: &mut Tx, jobs: &Jobs, group: &mut Group) -> Result<(), Error> {
    execute(tx, "BEGIN IMMEDIATE")?;
    let mut done = 0;
    while done < group.len() {
        if !group[done].perform(tx) || is_rolled_back(tx) {
            let _ = execute(tx, "ROLLBACK");
            return commit_with_savepoints(tx, group);
        }
        done += 1;
        if done == group.len() && done < JOBS_PER_COMMIT_MAX {
            group.extend(jobs.try_recv());
        }
    }
    execute(tx, "COMMIT")
}

/// Commits a group with a savepoint per job, so that a failed job does not undo the others.
fn commit_with_savepoints(tx: &mut Tx, group: &mut Group) -> Result<(), Error> {
    execute(tx, "BEGIN IMMEDIATE")?;
    for job in group {
        execute(tx, "SAVEPOINT job")?;
        let should_commit = job.perform(tx);
        if is_rolled_back(tx) {
            // For example, a full disk rolls back the whole transaction.
            return Err(Error::Unavailable("SQLite rolled the transaction back".to_owned()));
        }
        if !should_commit {
            execute(tx, "ROLLBACK TO job")?;
        }
        execute(tx, "RELEASE job")?;
    }
    execute(tx, "COMMIT")
}

/// Runs read-only jobs until the store is dropped.
pub(crate) fn read(connection: Connection, jobs: &Mutex<Jobs>) {
    let mut tx = Tx::new(tx::Connection::Sqlite(SqliteConnection::new(connection)));
    loop {
        // The waiting thread holds the lock and releases it when it receives a job.
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut job) = next else { return };
        // One transaction, so that the job reads a consistent snapshot.
        let begun = execute(&mut tx, "BEGIN").map(|()| job.perform(&mut tx));
        let _ = execute(&mut tx, "ROLLBACK");
        job.answer(begun.map(drop));
    }
}

fn execute(tx: &mut Tx, sql: &'static str) -> Result<(), Error> {
    match &mut tx.connection {
        tx::Connection::Sqlite(connection) => connection.execute(sql, &[]).map(drop),
        tx::Connection::Postgres(_) => Ok(()),
    }
}

fn is_rolled_back(tx: &Tx) -> bool {
    matches!(&tx.connection, tx::Connection::Sqlite(connection) if connection.connection.is_autocommit())
}

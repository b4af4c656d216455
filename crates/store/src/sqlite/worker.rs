//! The threads that work on a database.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::watch;

use super::job::Job;
use super::link::{self, Link};
use crate::error::Error;
use crate::tx::{self, Tx};

/// Jobs of one commit. More would make the first one wait for too long.
const JOBS_PER_COMMIT_MAX: usize = 256;

type Jobs = Receiver<Box<dyn Job>>;

/// Performs jobs until the store is dropped: whatever waits when the first one begins is committed with it, since a
/// commit costs far more than a job.
pub(crate) fn write(connection: Connection, jobs: &Jobs, news: &Arc<watch::Sender<u64>>) {
    let mut tx = Tx::new(tx::Link::Sqlite(Link::new(connection)));
    while let Ok(first) = jobs.recv() {
        tx.has_news = false;
        let mut group = Vec::new();
        let committed = commit(&mut tx, first, jobs, &mut group);
        if committed.is_err() {
            let _ = batch(&tx, "ROLLBACK");
        }
        let has_news = tx.has_news && committed.is_ok();
        group.into_iter().for_each(|job| job.answer(committed.clone()));
        if has_news {
            news.send_modify(|number| *number += 1);
        }
    }
}

fn commit(tx: &mut Tx, first: Box<dyn Job>, jobs: &Jobs, group: &mut Vec<Box<dyn Job>>) -> Result<(), Error> {
    let begun = batch(tx, "BEGIN IMMEDIATE");
    let mut next = Some(first);
    while let Some(mut job) = next {
        let performed = begun.clone().and_then(|()| perform(tx, &mut *job));
        group.push(job);
        performed?;
        next = if group.len() < JOBS_PER_COMMIT_MAX { jobs.try_recv().ok() } else { None };
    }
    batch(tx, "COMMIT")
}

/// Performs a job so that its failure undoes nothing of the others.
fn perform(tx: &mut Tx, job: &mut dyn Job) -> Result<(), Error> {
    batch(tx, "SAVEPOINT job")?;
    let stays = job.perform(tx);
    if is_over(tx) {
        // A full disk, for one, ends the whole transaction.
        return Err(Error::Unavailable("SQLite gave the transaction up".to_owned()));
    }
    batch(tx, if stays { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" })
}

/// Performs jobs that only read, until the store is dropped.
pub(crate) fn read(connection: Connection, jobs: &Mutex<Jobs>) {
    let mut tx = Tx::new(tx::Link::Sqlite(Link::new(connection)));
    loop {
        // Whoever waits holds the lock, and gives it to the next one as soon as it has something to do.
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut job) = next else { return };
        // One transaction, so that all that it reads is of the same moment.
        let begun = batch(&tx, "BEGIN").map(|()| job.perform(&mut tx));
        let _ = batch(&tx, "ROLLBACK");
        job.answer(begun.map(drop));
    }
}

fn batch(tx: &Tx, sql: &str) -> Result<(), Error> {
    match &tx.link {
        tx::Link::Sqlite(link) => link.connection.execute_batch(sql).map_err(link::error),
        tx::Link::Postgres(_) => Ok(()),
    }
}

fn is_over(tx: &Tx) -> bool {
    matches!(&tx.link, tx::Link::Sqlite(link) if link.connection.is_autocommit())
}

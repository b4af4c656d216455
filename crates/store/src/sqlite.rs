//! SQLite: one writer that commits in groups, and a few readers beside it.

mod checkpoint;
mod connection;
mod job;
mod lock;
mod migrate;
mod open;
mod watcher;
mod worker;

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use crate::error::Error;
use crate::tx::Perform;
use checkpoint::Checkpoints;
pub(crate) use connection::SqliteConnection;
use job::{Job, Transaction};
use lock::Lock;

/// Jobs that may wait for the writer or the readers. More are refused: whoever asks then waits elsewhere.
const JOBS_WAITING_MAX: usize = 10_000;

/// Connections that read.
const READERS: usize = 3;

/// A SQLite database.
#[derive(Debug)]
pub(crate) struct Sqlite {
    /// Taken when the store is dropped, so that the writer ends.
    writer: Option<SyncSender<Box<dyn Job>>>,
    /// None for a database in memory, which only its one connection can see.
    readers: Option<SyncSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    /// Ends the thread that looks for what other processes commit.
    _watcher: Option<SyncSender<()>>,
    /// Given back after the writer has ended.
    _lock: Option<Lock>,
}

impl Sqlite {
    /// Opens the database of a file; without a path, one in memory.
    pub(crate) fn open(
        path: Option<&Path>,
        is_exclusive: bool,
        news: &Arc<watch::Sender<u64>>,
        commits: &Arc<AtomicU64>,
    ) -> Result<Sqlite, Error> {
        let lock = match path {
            Some(path) => {
                open::make_folder(path)?;
                is_exclusive.then(|| Lock::take(path)).transpose()?
            }
            None => None,
        };
        let mut connection = open::writer(path)?;
        migrate::migrate(&mut connection)?;
        let checkpoints = path.map(|path| Checkpoints::of(&mut connection, path)).transpose()?;
        let (writer, jobs) = sync_channel(JOBS_WAITING_MAX);
        let (for_writer, commits, runtime) = (news.clone(), commits.clone(), Handle::current());
        let thread = spawn("store-writer", move || {
            worker::write(connection, checkpoints, &jobs, &for_writer, &commits, &runtime)
        })?;
        let (mut readers, mut watcher) = (None, None);
        if let Some(path) = path {
            readers = Some(start_readers(path)?);
            let (stop, stopped) = sync_channel(1);
            let (connection, news) = (open::reader(path)?, news.clone());
            spawn("store-watcher", move || watcher::watch(&connection, &stopped, &news))?;
            watcher = Some(stop);
        }
        Ok(Sqlite { writer: Some(writer), readers, thread: Some(thread), _watcher: watcher, _lock: lock })
    }

    /// Performs a verb in a transaction that is on the disk when this returns.
    pub(crate) async fn transact<A, R>(&self, arguments: A, perform: Perform<A, R>) -> Result<R, Error>
    where
        A: Send + 'static,
        R: Send + 'static,
    {
        send(self.writer.as_ref(), arguments, perform).await
    }

    /// Performs a verb that only reads, on what is committed.
    pub(crate) async fn read<A, R>(&self, arguments: A, perform: Perform<A, R>) -> Result<R, Error>
    where
        A: Send + 'static,
        R: Send + 'static,
    {
        send(self.readers.as_ref().or(self.writer.as_ref()), arguments, perform).await
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // The writer commits what waits and ends. Whoever opens the file next must not find it locked.
        drop(self.writer.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn send<A, R>(
    jobs: Option<&SyncSender<Box<dyn Job>>>,
    arguments: A,
    perform: Perform<A, R>,
) -> Result<R, Error>
where
    A: Send + 'static,
    R: Send + 'static,
{
    let ended = || Error::Unavailable("the store has been closed".to_owned());
    let (answer, answered) = oneshot::channel();
    let job = Box::new(Transaction::new(arguments, perform, answer));
    jobs.ok_or_else(ended)?.try_send(job).map_err(|error| match error {
        TrySendError::Full(_) => {
            Error::Unavailable(format!("it is overloaded: {JOBS_WAITING_MAX} requests wait for it already"))
        }
        TrySendError::Disconnected(_) => ended(),
    })?;
    answered.await.map_err(|_| ended())?
}

fn start_readers(path: &Path) -> Result<SyncSender<Box<dyn Job>>, Error> {
    let (readers, jobs) = sync_channel(JOBS_WAITING_MAX);
    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..READERS {
        let (connection, jobs) = (open::reader(path)?, jobs.clone());
        spawn("store-reader", move || worker::read(connection, &jobs))?;
    }
    Ok(readers)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| Error::Unavailable(format!("no thread can be started: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name to put down, and what is to go wrong afterwards.
    type Note = (String, Option<&'static str>);

    const NOTE: Perform<Note, u64> = |tx, (name, fault)| {
        Box::pin(async move {
            let sql =
                "INSERT INTO registry (kind, name, text, created_at, updated_at) VALUES ('x', $1, '', 0, 0)";
            tx.has_news = true;
            let rows = tx.execute(sql, &[name.into()]).await?;
            match fault {
                Some("panic") => panic!("a fault of a test"),
                Some("wait") => std::future::pending().await,
                Some(fault) => Err(Error::Unavailable((*fault).to_owned())),
                None => Ok(rows),
            }
        })
    };

    #[tokio::test(flavor = "multi_thread")]
    async fn one_that_fails_takes_nothing_of_the_others_along() {
        let (news, mut heard) = watch::channel(0);
        let sqlite = Arc::new(Sqlite::open(None, false, &Arc::new(news), &Arc::default()).unwrap());
        let faults = [None, Some("panic"), Some("wait"), Some("refused"), None];
        let mut asked = tokio::task::JoinSet::new();
        for number in 0..100 {
            let (sqlite, fault) = (sqlite.clone(), faults[number % faults.len()]);
            asked.spawn(async move {
                let done = sqlite.transact((number.to_string(), fault), NOTE).await;
                assert_eq!(done.is_ok(), fault.is_none(), "{number}: {done:?}");
            });
        }
        while let Some(done) = asked.join_next().await {
            done.unwrap();
        }
        let count: Perform<(), i64> = |tx, ()| {
            Box::pin(async move {
                let row = tx.query_one("SELECT count(*) FROM registry", &[]).await?;
                row.map_or(Ok(0), |mut row| row.integer())
            })
        };
        assert_eq!(sqlite.read((), count).await.unwrap(), 40);
        assert!(heard.has_changed().unwrap());
        assert!(*heard.borrow_and_update() <= 100);
    }
}

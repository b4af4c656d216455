//! SQLite: one writer thread with group commit, and reader threads.

mod backup;
mod checkpoint;
mod connection;
mod files;
mod job;
mod lock;
mod migrate;
mod open;
mod time;
mod watcher;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use crate::clock::Clock;
use crate::error::Error;
use crate::tx::Operation;
pub(crate) use backup::backup;
use checkpoint::Checkpoints;
pub(crate) use connection::SqliteConnection;
use files::DatabaseFiles;
use job::{Job, Transaction};
use lock::Lock;
use time::DatabaseTime;
use worker::CommitChecks;

/// Maximum number of queued jobs, for the writer and for the readers. Further jobs fail as `Unavailable`,
/// which bounds memory.
const JOBS_WAITING_MAX: usize = 10_000;

/// Number of reader connections.
const READERS: usize = 3;

/// An open SQLite database.
#[derive(Debug)]
pub(crate) struct Sqlite {
    /// Taken when the store is closed, which ends the writer thread.
    writer: RwLock<Option<SyncSender<Box<dyn Job>>>>,
    /// Taken when the store is closed.
    readers: RwLock<Option<SyncSender<Box<dyn Job>>>>,
    /// The file; `None` for an in-memory database.
    path: Option<PathBuf>,
    /// False for an in-memory database, which only the writer's connection can see.
    has_readers: bool,
    threads: Mutex<Threads>,
}

/// The threads of an open database.
#[derive(Debug, Default)]
struct Threads {
    writer: Option<JoinHandle<()>>,
    /// The readers, and the thread that detects commits of other processes.
    others: Vec<JoinHandle<()>>,
    /// Dropping it ends the watcher.
    stop_watcher: Option<SyncSender<()>>,
    /// Released after all connections are closed.
    lock: Option<Lock>,
}

impl Sqlite {
    /// Opens a database file, or an in-memory database without a path.
    pub(crate) fn open(
        path: Option<&Path>,
        is_exclusive: bool,
        clock: Clock,
        notifications: &Arc<watch::Sender<u64>>,
        commits: &Arc<AtomicU64>,
    ) -> Result<Sqlite, Error> {
        let (mut lock, mut identity) = (None, None);
        if let Some(path) = path {
            open::create_folder(path)?;
            identity = Some(open::prepare_file(path)?);
            lock = Lock::acquire(path, is_exclusive)?;
        }
        let mut connection = open::writer(path)?;
        migrate::migrate(&mut connection)?;
        let time = DatabaseTime::new(clock);
        time.synchronize(&mut connection)?;
        time.install(&connection)?;
        let files =
            path.zip(identity).map(|(path, identity)| DatabaseFiles::identify(path, identity)).transpose()?;
        let checkpoints = path.map(|path| Checkpoints::new(&mut connection, path)).transpose()?;
        let (writer, jobs) = sync_channel(JOBS_WAITING_MAX);
        let (for_writer, commits, runtime) = (notifications.clone(), commits.clone(), Handle::current());
        let checks = CommitChecks { files: files.clone(), time: time.clone() };
        let thread = spawn("store-writer", move || {
            worker::write(connection, &checks, checkpoints, &jobs, &for_writer, &commits, &runtime)
        })?;
        let mut threads = Threads { writer: Some(thread), lock, ..Threads::default() };
        let mut readers = None;
        if let Some((path, files)) = path.zip(files) {
            readers = Some(start_readers(path, &time, &mut threads.others)?);
            let (stop, stopped) = sync_channel(1);
            let (connection, notifications) = (open::reader(path)?, notifications.clone());
            threads.others.push(spawn("store-watcher", move || {
                watcher::watch(&connection, &files, &stopped, &notifications)
            })?);
            threads.stop_watcher = Some(stop);
        }
        let has_readers = readers.is_some();
        let (writer, readers) = (RwLock::new(Some(writer)), RwLock::new(readers));
        let path = path.map(Path::to_owned);
        Ok(Sqlite { writer, readers, path, has_readers, threads: Mutex::new(threads) })
    }

    /// Commits the queued jobs and closes all connections. The writer is the last one, which lets SQLite copy the WAL
    /// into the database and delete it. Further operations fail.
    pub(crate) fn close(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.stop_watcher.take();
        self.readers.write().unwrap_or_else(PoisonError::into_inner).take();
        for thread in threads.others.drain(..) {
            let _ = thread.join();
        }
        self.writer.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = threads.writer.take() {
            let _ = thread.join();
        }
        threads.lock.take();
    }

    /// Copies the WAL into the database, which then has its new size on disk. Does not block writers.
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        match &self.path {
            Some(path) => open::checkpointer(path).map(|connection| checkpoint::checkpoint(&connection)),
            None => Ok(()),
        }
    }

    /// Runs an operation on the writer. The transaction is durable when this returns.
    pub(crate) async fn transact<A, R>(&self, arguments: A, operation: Operation<A, R>) -> Result<R, Error>
    where
        A: Send + 'static,
        R: Send + 'static,
    {
        send(&self.writer, arguments, operation).await
    }

    /// Runs a read-only operation on committed data.
    pub(crate) async fn read<A, R>(&self, arguments: A, operation: Operation<A, R>) -> Result<R, Error>
    where
        A: Send + 'static,
        R: Send + 'static,
    {
        let jobs = if self.has_readers { &self.readers } else { &self.writer };
        send(jobs, arguments, operation).await
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // The next process must not find the file in use.
        self.close();
    }
}

async fn send<A, R>(
    jobs: &RwLock<Option<SyncSender<Box<dyn Job>>>>,
    arguments: A,
    operation: Operation<A, R>,
) -> Result<R, Error>
where
    A: Send + 'static,
    R: Send + 'static,
{
    let ended = || Error::Unavailable("the store is closed".to_owned());
    let (answer, answered) = oneshot::channel();
    let job = Box::new(Transaction::new(arguments, operation, answer));
    let sent = match jobs.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
        Some(jobs) => jobs.try_send(job),
        None => return Err(ended()),
    };
    sent.map_err(|error| match error {
        TrySendError::Full(_) => {
            Error::Unavailable(format!("overloaded: {JOBS_WAITING_MAX} requests are already queued"))
        }
        TrySendError::Disconnected(_) => ended(),
    })?;
    answered.await.map_err(|_| ended())?
}

fn start_readers(
    path: &Path,
    time: &DatabaseTime,
    threads: &mut Vec<JoinHandle<()>>,
) -> Result<SyncSender<Box<dyn Job>>, Error> {
    let (readers, jobs) = sync_channel(JOBS_WAITING_MAX);
    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..READERS {
        let (connection, jobs) = (open::reader(path)?, jobs.clone());
        time.install(&connection)?;
        threads.push(spawn("store-reader", move || worker::read(connection, &jobs))?);
    }
    Ok(readers)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| Error::Unavailable(format!("cannot start a thread: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name to insert, and the failure to simulate afterwards.
    type Note = (String, Option<&'static str>);

    const NOTE: Operation<Note, u64> = |tx, (name, fault)| {
        Box::pin(async move {
            let sql =
                "INSERT INTO registry (kind, name, text, created_at, updated_at) VALUES ('x', $1, '', 0, 0)";
            tx.has_notification = true;
            let rows = tx.execute(sql, &[name.into()]).await?;
            match fault {
                Some("panic") => panic!("simulated panic"),
                Some("wait") => std::future::pending().await,
                Some(fault) => Err(Error::Unavailable((*fault).to_owned())),
                None => Ok(rows),
            }
        })
    };

    #[tokio::test(flavor = "multi_thread")]
    async fn failed_operation_does_not_undo_others_of_its_group() {
        let (notifications, mut receiver) = watch::channel(0);
        let sqlite = Arc::new(
            Sqlite::open(None, false, Clock::default(), &Arc::new(notifications), &Arc::default()).unwrap(),
        );
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
        let count: Operation<(), i64> = |tx, ()| {
            Box::pin(async move {
                let row = tx.query_one("SELECT count(*) FROM registry", &[]).await?;
                row.map_or(Ok(0), |mut row| row.integer())
            })
        };
        assert_eq!(sqlite.read((), count).await.unwrap(), 40);
        assert!(receiver.has_changed().unwrap());
        assert!(*receiver.borrow_and_update() <= 100);
    }
}

//! PostgreSQL: a connection pool; each operation is one transaction.

mod connection;
mod migrate;
mod notify;
mod password;
mod pool;
pub(crate) mod target;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::error::Error;
use crate::tx::{self, Operation, Tx};
pub(crate) use connection::PostgresConnection;
use pool::{Permit, Pool};
use target::Target;

/// Maximum number of attempts at an operation after a serialization conflict or on a dead connection.
const ATTEMPTS_MAX: usize = 5;

/// Time limit of one attempt with a connection. It exceeds `statement_timeout`, so it only ends attempts on a hanging
/// connection.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(12);

/// For writes. Rows are locked explicitly, so each statement may see the latest commits.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// For reads. All statements see one snapshot.
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// An open PostgreSQL database.
#[derive(Debug)]
pub(crate) struct Postgres {
    pool: Arc<Pool>,
    notifications: Arc<watch::Sender<u64>>,
    commits: Arc<AtomicU64>,
    /// Wakes the task that notifies other processes.
    notifier: Arc<Notify>,
    tasks: [AbortHandle; 2],
}

impl Postgres {
    /// Connects, migrates and starts the notification tasks. `connections` is the size of the pool; two more
    /// connections receive and send notifications.
    pub(crate) async fn open(
        address: &str,
        connections: usize,
        notifications: &Arc<watch::Sender<u64>>,
        commits: &Arc<AtomicU64>,
    ) -> Result<Postgres, Error> {
        let target = Target::read(address, &|name| std::env::var(name).ok())?;
        let pool = Arc::new(Pool::new(target.clone(), connections));
        migrate::migrate(&pool).await?;
        let (notifier, sender_id) = (Arc::new(Notify::new()), notify::sender_id()?);
        let listening = tokio::spawn(notify::listen(
            target.clone(),
            sender_id.clone(),
            notifications.clone(),
            pool.refusals(),
        ));
        let sending = tokio::spawn(notify::send(target, pool.clone(), sender_id, notifier.clone()));
        let tasks = [listening.abort_handle(), sending.abort_handle()];
        Ok(Postgres { pool, notifications: notifications.clone(), commits: commits.clone(), notifier, tasks })
    }

    /// Runs an operation in a transaction that is durable when this returns.
    pub(crate) async fn transact<A, R>(&self, arguments: A, operation: Operation<A, R>) -> Result<R, Error>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        self.attempt(BEGIN, &arguments, operation).await
    }

    /// Runs a read-only operation on committed data.
    pub(crate) async fn read<A, R>(&self, arguments: A, operation: Operation<A, R>) -> Result<R, Error>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        self.attempt(BEGIN_READING, &arguments, operation).await
    }

    async fn attempt<A, R>(
        &self,
        begin: &'static str,
        arguments: &A,
        operation: Operation<A, R>,
    ) -> Result<R, Error>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        let mut left = ATTEMPTS_MAX;
        loop {
            left -= 1;
            // Has its own time limits: waiting for a connection may take longer than an attempt.
            let connected = self.pool.acquire().await?;
            let once = timeout(ATTEMPT_TIMEOUT, self.once(connected, begin, arguments, operation));
            match once.await {
                Ok(Err(AttemptError { may_retry: true, .. })) if left > 0 => {}
                Ok(done) => return done.map_err(|failure| failure.error),
                Err(_) => {
                    let seconds = ATTEMPT_TIMEOUT.as_secs();
                    return Err(Error::Unavailable(format!("no response within {seconds} seconds")));
                }
            }
        }
    }

    async fn once<A, R>(
        &self,
        (mut connection, permit): (PostgresConnection, Permit),
        begin: &'static str,
        arguments: &A,
        operation: Operation<A, R>,
    ) -> Result<R, AttemptError>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        connection.begin = Some(begin);
        let mut tx = Tx::new(tx::Connection::Postgres(connection));
        let performed = operation(&mut tx, arguments).await;
        let has_notification = tx.has_notification;
        let tx::Connection::Postgres(mut connection) = tx.connection else {
            return Err(Error::Unavailable("the connection belongs to another database".to_owned()).into());
        };
        match performed {
            Ok(answer) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = connection.commit().await {
                    // A failed commit may have taken effect, unless PostgreSQL reports that it did not.
                    let may_retry =
                        connection.is_conflict || (connection.is_commit_rejected && connection.is_closed());
                    if connection.is_closed() {
                        self.pool.close_idle();
                    }
                    return Err(AttemptError { error, may_retry });
                }
                self.pool.release(connection, permit);
                if has_notification {
                    self.notifications.send_modify(|number| *number += 1);
                    self.notifier.notify_one();
                }
                Ok(answer)
            }
            Err(error) => {
                // Nothing was committed, so the operation can be retried on a new connection.
                let may_retry = connection.is_conflict || connection.is_closed();
                if connection.is_closed() {
                    // A server shutdown closes the idle connections as well.
                    self.pool.close_idle();
                } else if connection.roll_back().await.is_ok() {
                    self.pool.release(connection, permit);
                }
                Err(AttemptError { error, may_retry })
            }
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Why an attempt failed.
struct AttemptError {
    error: Error,
    may_retry: bool,
}

impl From<Error> for AttemptError {
    fn from(error: Error) -> AttemptError {
        AttemptError { error, may_retry: false }
    }
}

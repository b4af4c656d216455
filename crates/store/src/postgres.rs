//! PostgreSQL: a few connections, each verb a transaction on one of them.

mod connection;
mod hint;
mod migrate;
mod pool;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::error::Error;
use crate::tx::{self, Perform, Tx};
pub(crate) use connection::PostgresConnection;
use pool::Pool;

/// How often a verb is tried when PostgreSQL gives up on a transaction because of another one, or when a connection
/// turns out to be dead. Then whoever asked is told.
const ATTEMPTS_MAX: usize = 5;

/// How long one attempt may take: longer than a statement may, so this ends only what a dead server leaves hanging.
const ATTEMPT_WAIT: Duration = Duration::from_secs(12);

/// For what changes something: rows are locked, so that each statement may see what was committed last.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// For what only reads: all of it is of the same moment.
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A PostgreSQL database.
#[derive(Debug)]
pub(crate) struct Postgres {
    pool: Pool,
    news: Arc<watch::Sender<u64>>,
    commits: Arc<AtomicU64>,
    /// Says that other processes are to be told of news.
    tell: Arc<Notify>,
    tasks: [AbortHandle; 2],
}

impl Postgres {
    /// Opens the database of an address.
    pub(crate) async fn open(
        address: &str,
        news: &Arc<watch::Sender<u64>>,
        commits: &Arc<AtomicU64>,
    ) -> Result<Postgres, Error> {
        let config = pool::config(address)?;
        let pool = Pool::new(config.clone());
        migrate::migrate(&pool).await?;
        let (tell, name) = (Arc::new(Notify::new()), hint::name()?);
        let listening = tokio::spawn(hint::listen(config.clone(), name.clone(), news.clone()));
        let telling = tokio::spawn(hint::tell(config, name, tell.clone()));
        let tasks = [listening.abort_handle(), telling.abort_handle()];
        Ok(Postgres { pool, news: news.clone(), commits: commits.clone(), tell, tasks })
    }

    /// Performs a verb in a transaction that is on the disk when this returns.
    pub(crate) async fn transact<A, R>(&self, arguments: A, perform: Perform<A, R>) -> Result<R, Error>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        self.attempt(BEGIN, &arguments, perform).await
    }

    /// Performs a verb that only reads, on what is committed.
    pub(crate) async fn read<A, R>(&self, arguments: A, perform: Perform<A, R>) -> Result<R, Error>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        self.attempt(BEGIN_READING, &arguments, perform).await
    }

    async fn attempt<A, R>(
        &self,
        begin: &'static str,
        arguments: &A,
        perform: Perform<A, R>,
    ) -> Result<R, Error>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        let mut left = ATTEMPTS_MAX;
        loop {
            left -= 1;
            let once = timeout(ATTEMPT_WAIT, self.once(begin, arguments, perform));
            match once.await {
                Ok(Err(Failed { may_retry: true, .. })) if left > 0 => {}
                Ok(done) => return done.map_err(|failed| failed.error),
                Err(_) => {
                    let seconds = ATTEMPT_WAIT.as_secs();
                    return Err(Error::Unavailable(format!("no answer within {seconds} seconds")));
                }
            }
        }
    }

    async fn once<A, R>(
        &self,
        begin: &'static str,
        arguments: &A,
        perform: Perform<A, R>,
    ) -> Result<R, Failed>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        let (mut connection, permit) = self.pool.take().await?;
        connection.begin = Some(begin);
        let mut tx = Tx::new(tx::Connection::Postgres(connection));
        let performed = perform(&mut tx, arguments).await;
        let has_news = tx.has_news;
        let tx::Connection::Postgres(mut connection) = tx.connection else {
            return Err(Error::Unavailable("the connection is of another database".to_owned()).into());
        };
        match performed {
            Ok(answer) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = connection.commit().await {
                    // Whether it was committed is not known, unless PostgreSQL says that it was not.
                    let may_retry =
                        connection.is_conflict || (connection.is_refused && connection.is_closed());
                    if connection.is_closed() {
                        self.pool.forget_idle();
                    }
                    return Err(Failed { error, may_retry });
                }
                self.pool.give_back(connection, permit);
                if has_news {
                    self.news.send_modify(|number| *number += 1);
                    self.tell.notify_one();
                }
                Ok(answer)
            }
            Err(error) => {
                // Nothing was committed: it may be tried again on a connection that lives.
                let may_retry = connection.is_conflict || connection.is_closed();
                if connection.is_closed() {
                    // A server that went away took the others along.
                    self.pool.forget_idle();
                } else if connection.roll_back().await.is_ok() {
                    self.pool.give_back(connection, permit);
                }
                Err(Failed { error, may_retry })
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
struct Failed {
    error: Error,
    may_retry: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed { error, may_retry: false }
    }
}

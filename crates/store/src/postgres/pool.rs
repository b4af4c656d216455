//! The connection pool.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::connection::PostgresConnection;
use super::target::{ConnectError, Target};
use crate::error::Error;

/// Time limit for waiting for a free connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for establishing a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time limit for waiting while the server has reached its connection limit. Callers get an error after it instead of
/// an answer that they may not wait for.
const LIMIT_WAIT: Duration = Duration::from_secs(15);

/// Time between two attempts of the pool to connect to a server that has reached its connection limit. Each attempt
/// costs both sides a handshake, and delays the operations that have a connection.
const LIMIT_RETRY: Duration = Duration::from_millis(250);

/// Timeouts in milliseconds. No statement takes long, and an abandoned transaction must not hold its locks.
const SETTINGS: &str = "SET statement_timeout = 10000; SET idle_in_transaction_session_timeout = 15000; \
                        SET client_min_messages = warning";

/// Connections, opened on demand.
pub(crate) struct Pool {
    target: Target,
    size: usize,
    idle: Mutex<Vec<PostgresConnection>>,
    permits: Arc<Semaphore>,
    /// Wakes a task that waits because the server allows no further connection.
    released: Notify,
    /// Increases when the server refuses a connection because of its limit.
    refusals: watch::Sender<u64>,
    /// When the server last refused a connection because of its limit; `None` after it accepted one.
    refused_at: Mutex<Option<Instant>>,
}

/// The right to use one connection.
pub(crate) type Permit = OwnedSemaphorePermit;

impl Pool {
    pub(crate) fn new(target: Target, size: usize) -> Pool {
        let size = size.clamp(1, Semaphore::MAX_PERMITS);
        Pool {
            target,
            size,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(size)),
            released: Notify::new(),
            refusals: watch::channel(0).0,
            refused_at: Mutex::default(),
        }
    }

    /// Returns an idle connection, or opens one. Waits while the server has reached its connection limit.
    pub(crate) async fn acquire(&self) -> Result<(PostgresConnection, Permit), Error> {
        let permit = match timeout(ACQUIRE_TIMEOUT, self.permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            _ => {
                return Err(Error::Unavailable(format!(
                    "overloaded: all {} connections were in use for {} seconds",
                    self.size,
                    ACQUIRE_TIMEOUT.as_secs()
                )));
            }
        };
        let deadline = Instant::now() + LIMIT_WAIT;
        loop {
            let idle = self.idle().pop();
            if let Some(connection) = idle {
                return Ok((connection, permit));
            }
            if self.may_connect() {
                match self.connect().await {
                    Ok(connection) => {
                        *self.refused_at() = None;
                        return Ok((connection, permit));
                    }
                    Err(ConnectError { error, is_limit: true }) => self.report_limit(&error),
                    Err(ConnectError { error, .. }) => return Err(error),
                }
            }
            if Instant::now() >= deadline {
                return Err(Error::Unavailable(format!(
                    "PostgreSQL has reached its connection limit, and no connection became free within {} seconds",
                    LIMIT_WAIT.as_secs()
                )));
            }
            // Returns at once if a connection was released since the check above.
            let _ = timeout(LIMIT_RETRY, self.released.notified()).await;
        }
    }

    /// Returns whether to try to connect. One task of the pool tries again after a refusal.
    fn may_connect(&self) -> bool {
        let mut refused_at = self.refused_at();
        match *refused_at {
            Some(at) if at.elapsed() < LIMIT_RETRY => false,
            Some(_) => {
                *refused_at = Some(Instant::now());
                true
            }
            None => true,
        }
    }

    /// Returns a counter of the connections that the server refused because of its limit.
    pub(crate) fn refusals(&self) -> watch::Receiver<u64> {
        self.refusals.subscribe()
    }

    /// Records a refusal because of the server's limit, and logs the first one.
    fn report_limit(&self, error: &Error) {
        self.refusals.send_modify(|number| *number += 1);
        if self.refused_at().replace(Instant::now()).is_none() {
            tracing::warn!(%error, "PostgreSQL has reached its connection limit; waiting for a free connection");
        }
    }

    fn refused_at(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.refused_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a connection to the pool, unless it is broken.
    pub(crate) fn release(&self, mut connection: PostgresConnection, permit: Permit) {
        connection.is_conflict = false;
        if !connection.is_closed() {
            self.idle().push(connection);
        }
        drop(permit);
        self.released.notify_one();
    }

    /// Closes all idle connections.
    pub(crate) fn close_idle(&self) {
        self.idle().clear();
    }

    async fn connect(&self) -> Result<PostgresConnection, ConnectError> {
        let connecting = async {
            let (client, connection) = self.target.connect().await?;
            // Ends with the client or the server; the client's next call then fails.
            tokio::spawn(connection);
            let mut connection = PostgresConnection::new(client);
            connection.run(SETTINGS).await?;
            Ok(connection)
        };
        timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| {
            let seconds = CONNECT_TIMEOUT.as_secs();
            Err(Error::Unavailable(format!("no connection within {seconds} seconds")).into())
        })
    }

    /// Returns the idle connections after removing broken ones.
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<PostgresConnection>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| !connection.is_closed());
        idle
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pool").finish_non_exhaustive()
    }
}

//! The connection pool.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::{Config, NoTls};

use super::connection::{PostgresConnection, convert_error};
use crate::error::Error;

/// Maximum number of connections. PostgreSQL slows down with many active connections.
const CONNECTIONS_MAX: usize = 12;

/// Time limit for waiting for a free connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for establishing a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum time that sent data may stay unacknowledged (`TCP_USER_TIMEOUT`).
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// Timeouts in milliseconds. No statement takes long, and an abandoned transaction must not hold its locks.
const SETTINGS: &str = "SET statement_timeout = 10000; SET idle_in_transaction_session_timeout = 15000; \
                        SET client_min_messages = warning";

/// Connections, opened on demand.
pub(crate) struct Pool {
    config: Config,
    idle: Mutex<Vec<PostgresConnection>>,
    permits: Arc<Semaphore>,
}

/// The right to use one connection.
pub(crate) type Permit = OwnedSemaphorePermit;

impl Pool {
    pub(crate) fn new(config: Config) -> Pool {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Pool { config, idle: Mutex::default(), permits }
    }

    /// Returns an idle connection, or opens one.
    pub(crate) async fn acquire(&self) -> Result<(PostgresConnection, Permit), Error> {
        let permit = match timeout(ACQUIRE_TIMEOUT, self.permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            _ => {
                return Err(Error::Unavailable(format!(
                    "overloaded: all {CONNECTIONS_MAX} connections were in use for {} seconds",
                    ACQUIRE_TIMEOUT.as_secs()
                )));
            }
        };
        let idle = self.idle().pop();
        match idle {
            Some(connection) => Ok((connection, permit)),
            None => Ok((self.connect().await?, permit)),
        }
    }

    /// Returns a connection to the pool, unless it is broken.
    pub(crate) fn release(&self, mut connection: PostgresConnection, permit: Permit) {
        connection.is_conflict = false;
        if !connection.is_closed() {
            self.idle().push(connection);
        }
        drop(permit);
    }

    /// Closes all idle connections.
    pub(crate) fn close_idle(&self) {
        self.idle().clear();
    }

    async fn connect(&self) -> Result<PostgresConnection, Error> {
        let connecting = async {
            let (client, connection) =
                self.config.connect(NoTls).await.map_err(|error| convert_error(&error))?;
            // Ends with the client or the server; the client's next call then fails.
            tokio::spawn(connection);
            let mut connection = PostgresConnection::new(client);
            connection.run(SETTINGS).await?;
            Ok(connection)
        };
        timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| {
            Err(Error::Unavailable(format!("no connection within {} seconds", CONNECT_TIMEOUT.as_secs())))
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

/// Parses a connection URL and sets the timeouts.
pub(crate) fn config(address: &str) -> Result<Config, Error> {
    // The message omits the URL because it can contain a password.
    let mut config: Config = address.parse().map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Error::Address(format!("cannot parse the PostgreSQL address{cause}"))
    })?;
    config.connect_timeout(CONNECT_TIMEOUT).tcp_user_timeout(UNACKNOWLEDGED_MAX).application_name("slipform");
    Ok(config)
}

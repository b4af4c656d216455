//! The connections to a server.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::{Config, NoTls};

use super::connection::{PostgresConnection, explain};
use crate::error::Error;

/// Connections at a time. PostgreSQL serves few of them well and many of them badly.
const CONNECTIONS_MAX: usize = 12;

/// How long a verb waits for a connection when all are in use.
const TURN_WAIT: Duration = Duration::from_secs(5);

/// How long a server may take to let someone in.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(3);

/// How long data may be on its way without a word from the server.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Nothing of ours takes long, and whoever forgets a transaction must not hold its locks.
const SETTINGS: &str = "SET statement_timeout = 10000; SET idle_in_transaction_session_timeout = 15000; \
                        SET client_min_messages = warning";

/// Connections, made when they are needed.
pub(crate) struct Pool {
    config: Config,
    idle: Mutex<Vec<PostgresConnection>>,
    permits: Arc<Semaphore>,
}

/// The right to have a connection.
pub(crate) type Permit = OwnedSemaphorePermit;

impl Pool {
    pub(crate) fn new(config: Config) -> Pool {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Pool { config, idle: Mutex::default(), permits }
    }

    /// A connection that lives, as far as one can know.
    pub(crate) async fn take(&self) -> Result<(PostgresConnection, Permit), Error> {
        let permit = match timeout(TURN_WAIT, self.permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            _ => {
                return Err(Error::Unavailable(format!(
                    "it is overloaded: all {CONNECTIONS_MAX} connections were in use for {} seconds",
                    TURN_WAIT.as_secs()
                )));
            }
        };
        let idle = self.idle().pop();
        match idle {
            Some(connection) => Ok((connection, permit)),
            None => Ok((self.connect().await?, permit)),
        }
    }

    /// Puts a connection back. One that broke is let go.
    pub(crate) fn give_back(&self, mut connection: PostgresConnection, permit: Permit) {
        connection.is_conflict = false;
        if !connection.is_closed() {
            self.idle().push(connection);
        }
        drop(permit);
    }

    /// Lets go of the connections that nobody uses.
    pub(crate) fn forget_idle(&self) {
        self.idle().clear();
    }

    async fn connect(&self) -> Result<PostgresConnection, Error> {
        let connecting = async {
            let (client, connection) = self.config.connect(NoTls).await.map_err(|error| explain(&error))?;
            // It ends with the client, or with the server; whoever uses the client then learns of it.
            tokio::spawn(connection);
            let mut connection = PostgresConnection::new(client);
            connection.run(SETTINGS).await?;
            Ok(connection)
        };
        timeout(CONNECT_WAIT, connecting).await.unwrap_or_else(|_| {
            Err(Error::Unavailable(format!("no connection within {} seconds", CONNECT_WAIT.as_secs())))
        })
    }

    /// The idle connections, without those that broke meanwhile.
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

/// How the server of an address is reached.
pub(crate) fn config(address: &str) -> Result<Config, Error> {
    // The address is not repeated: it may hold a password.
    let mut config: Config = address.parse().map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Error::Address(format!("the address of the PostgreSQL database cannot be read{cause}"))
    })?;
    config.connect_timeout(CONNECT_WAIT).tcp_user_timeout(SILENCE_MAX).application_name("slipform");
    Ok(config)
}

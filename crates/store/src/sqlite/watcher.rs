//! Detects commits of other processes.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;

/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(200);

/// Polls `data_version` until the store is dropped.
pub(crate) fn watch(
    connection: &Connection,
    stopped: &Receiver<()>,
    notifications: &Arc<watch::Sender<u64>>,
) {
    let version = || connection.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).ok();
    // Starts as `None` so that commits before the first poll are notified as well.
    let mut seen = None;
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let found = version();
        if found != seen {
            seen = found;
            notifications.send_modify(|number| *number += 1);
        }
    }
}

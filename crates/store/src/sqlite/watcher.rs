//! Noticing what other processes commit.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;

/// How often it is looked whether another process has committed something.
const INTERVAL: Duration = Duration::from_millis(200);

/// Looks until the store is dropped.
pub(crate) fn watch(connection: &Connection, stopped: &Receiver<()>, news: &Arc<watch::Sender<u64>>) {
    let version = || connection.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).ok();
    // Nothing is seen at first: what is committed before this thread gets to look is news as well.
    let mut seen = None;
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let found = version();
        if found != seen {
            seen = found;
            news.send_modify(|number| *number += 1);
        }
    }
}

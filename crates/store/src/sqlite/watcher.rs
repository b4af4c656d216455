//! Detects commits of other processes, and database files that are deleted, moved or replaced.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;

use super::files::DatabaseFiles;

/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(200);

/// Polls `data_version` and the files until the store is closed. Writes check the files themselves; this reports the
/// change even if nothing is written.
pub(crate) fn watch(
    connection: &Connection,
    files: &DatabaseFiles,
    stopped: &Receiver<()>,
    notifications: &Arc<watch::Sender<u64>>,
) {
    let version = || connection.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).ok();
    // Starts as `None` so that commits before the first poll are notified as well.
    let mut seen = None;
    let mut was_in_place = true;
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let found = version();
        if found != seen {
            seen = found;
            notifications.send_modify(|number| *number += 1);
        }
        let checked = files.check();
        match &checked {
            Err(error) if was_in_place => tracing::error!(%error, "refusing all writes"),
            Ok(()) if !was_in_place => tracing::info!("the database files are back; accepting writes"),
            _ => {}
        }
        was_in_place = checked.is_ok();
    }
}

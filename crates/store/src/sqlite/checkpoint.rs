//! Checkpoints the WAL on a separate thread. A checkpoint takes tens of milliseconds, which would block all
//! writes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::{open, spawn};
use crate::error::Error;

/// WAL size that starts a checkpoint: 64 MiB. A page that changes often is then copied once.
const PAGES: i32 = 16_384;

/// WAL size at which the writer checkpoints itself, even though that blocks writes: 256 MiB.
const PAGES_MAX: i32 = 65_536;

/// Decides when to checkpoint, and on which thread.
///
/// SQLite restarts the WAL only when all of it has been copied. A thread beside the writer never reaches that
/// state, because the writer keeps adding pages. So the thread copies most of the WAL, and the writer
/// copies the small rest.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// Current size of the WAL, in pages.
    pages: Arc<AtomicI32>,
    /// Size that starts a checkpoint, in pages.
    limit: i32,
    /// Size that starts the next checkpoint, in pages. It grows while a long read keeps the WAL from
    /// restarting.
    next: i32,
    /// Dropping it ends the thread.
    request: Option<SyncSender<()>>,
    is_copied: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Takes over checkpointing for a writer's file.
    pub(crate) fn new(connection: &mut Connection, path: &Path) -> Result<Checkpoints, Error> {
        Checkpoints::with_limit(PAGES, connection, path)
    }

    fn with_limit(limit: i32, connection: &mut Connection, path: &Path) -> Result<Checkpoints, Error> {
        connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(super::connection::error)?;
        let pages = Arc::new(AtomicI32::new(0));
        let counted = pages.clone();
        let count = move |_: &mut rusqlite::hooks::Wal, pages| {
            counted.store(pages, Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(count)).map_err(super::connection::error)?;
        let (request, requests) = sync_channel(0);
        let is_copied = Arc::new(AtomicBool::new(false));
        let (checkpointer, copied) = (open::checkpointer(path)?, is_copied.clone());
        let thread = spawn("store-checkpoint", move || run_checkpoints(&checkpointer, &requests, &copied))?;
        let (request, thread) = (Some(request), Some(thread));
        Ok(Checkpoints { pages, limit, next: limit, request, is_copied, thread })
    }

    /// Starts or completes a checkpoint if needed. The writer calls this after each commit.
    pub(crate) fn after_commit(&mut self, connection: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.limit {
            self.next = self.limit;
        }
        if self.is_copied.swap(false, Ordering::Relaxed) || pages >= self.next.max(PAGES_MAX) {
            checkpoint(connection);
            self.next = pages.saturating_add(self.limit);
        } else if pages >= self.next {
            // Fails if a checkpoint is already running, which is fine.
            let _ = self.request.as_ref().map(|request| request.try_send(()));
        }
    }
}

impl Drop for Checkpoints {
    /// Waits for the thread, so that its connection is closed before the writer's.
    fn drop(&mut self) {
        self.request.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs a checkpoint per request until the writer ends.
fn run_checkpoints(connection: &Connection, requests: &Receiver<()>, is_copied: &AtomicBool) {
    while requests.recv().is_ok() {
        checkpoint(connection);
        // Copies the pages written during the first checkpoint, which are far fewer.
        checkpoint(connection);
        is_copied.store(true, Ordering::Relaxed);
    }
}

/// Copies the pages that no reader needs from the WAL. A failure is ignored; the next checkpoint copies them.
pub(crate) fn checkpoint(connection: &Connection) {
    let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}

/// Copies the whole WAL and empties it, unless another process uses the database.
pub(crate) fn truncate_wal(connection: &Connection) {
    let _ = connection.busy_timeout(Duration::ZERO);
    let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits until the WAL restarts. Returns false if it does not within a generous number of commits.
    fn wal_restarts(connection: &Connection, checkpoints: &mut Checkpoints) -> bool {
        let mut before = 0;
        for _ in 0..200_000 {
            connection.execute("INSERT INTO rows (text) VALUES (hex(randomblob(1000)))", []).unwrap();
            let pages = checkpoints.pages.load(Ordering::Relaxed);
            if pages < before {
                return true;
            }
            before = pages;
            checkpoints.after_commit(connection);
        }
        false
    }

    #[test]
    fn wal_restarts_during_continuous_writes() {
        let folder = std::env::temp_dir().join(format!("slipform-checkpoint-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rows.db");
        let mut connection = open::writer(Some(&path)).unwrap();
        connection.execute_batch("CREATE TABLE rows (text TEXT)").unwrap();
        let mut checkpoints = Checkpoints::with_limit(64, &mut connection, &path).unwrap();
        assert!(wal_restarts(&connection, &mut checkpoints));
        assert!(wal_restarts(&connection, &mut checkpoints), "second restart");

        // An open read transaction keeps the WAL from restarting.
        let reader = open::reader(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM rows").unwrap();
        let count = |connection: &Connection| -> i64 {
            connection.query_row("SELECT count(*) FROM rows", [], |row| row.get(0)).unwrap()
        };
        let seen = count(&reader);
        for _ in 0..1_000 {
            connection.execute("INSERT INTO rows (text) VALUES ('x')", []).unwrap();
            checkpoints.after_commit(&connection);
        }
        assert!(checkpoints.pages.load(Ordering::Relaxed) > 1_000);
        assert_eq!((count(&reader), count(&connection)), (seen, seen + 1_000));
        reader.execute_batch("COMMIT").unwrap();
        assert!(wal_restarts(&connection, &mut checkpoints));
        drop((connection, reader, checkpoints));
        std::fs::remove_dir_all(folder).unwrap();
    }
}

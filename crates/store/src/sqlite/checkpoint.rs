//! Copying the log to the file, beside the writer. Copying takes tens of milliseconds, and everybody would wait for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::Connection;

use super::{open, spawn};
use crate::error::Error;

/// Pages of the log after which it is copied: 64 MiB. Pages that change often are copied once for all.
const PAGES: i32 = 16_384;

/// Pages of the log after which the writer copies them itself, whatever that takes: 256 MiB.
const PAGES_MAX: i32 = 65_536;

/// When the log is copied, and by whom.
///
/// Nobody who only copies beside the writer ever copies all: more is written meanwhile, and the log begins anew only when
/// nothing in it is missing in the file. So a thread copies most of it, and the writer the little that is left.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// Pages of the log.
    pages: Arc<AtomicI32>,
    /// Pages after which it is copied.
    limit: i32,
    /// Pages after which it is copied next. They are more where something that is read keeps the log from beginning anew.
    next: i32,
    begin: SyncSender<()>,
    is_copied: Arc<AtomicBool>,
}

impl Checkpoints {
    /// Takes the log of a writer's file over.
    pub(crate) fn of(connection: &mut Connection, path: &Path) -> Result<Checkpoints, Error> {
        Checkpoints::after(PAGES, connection, path)
    }

    fn after(limit: i32, connection: &mut Connection, path: &Path) -> Result<Checkpoints, Error> {
        connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(super::connection::error)?;
        let pages = Arc::new(AtomicI32::new(0));
        let counted = pages.clone();
        let count = move |_: &mut rusqlite::hooks::Wal, pages| {
            counted.store(pages, Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(count)).map_err(super::connection::error)?;
        let (begin, begun) = sync_channel(0);
        let is_copied = Arc::new(AtomicBool::new(false));
        let (copying, copied) = (open::copier(path)?, is_copied.clone());
        spawn("store-copier", move || copy(&copying, &begun, &copied))?;
        Ok(Checkpoints { pages, limit, next: limit, begin, is_copied })
    }

    /// Looks after a commit whether something is to be done.
    pub(crate) fn look(&mut self, connection: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.limit {
            self.next = self.limit;
        }
        if self.is_copied.swap(false, Ordering::Relaxed) || pages >= self.next.max(PAGES_MAX) {
            checkpoint(connection);
            self.next = pages.saturating_add(self.limit);
        } else if pages >= self.next {
            // It may be at it already.
            let _ = self.begin.try_send(());
        }
    }
}

/// Copies whenever it is told to, until the writer ends.
fn copy(connection: &Connection, begun: &Receiver<()>, is_copied: &AtomicBool) {
    while begun.recv().is_ok() {
        checkpoint(connection);
        // What was written meanwhile: far less.
        checkpoint(connection);
        is_copied.store(true, Ordering::Relaxed);
    }
}

/// Copies what nobody reads from the log any more. What cannot be copied now is copied next time.
fn checkpoint(connection: &Connection) {
    let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits until the log begins anew; false where it does not within far more than it may take.
    fn begins_anew(connection: &Connection, checkpoints: &mut Checkpoints) -> bool {
        let mut before = 0;
        for _ in 0..200_000 {
            connection.execute("INSERT INTO rows (text) VALUES (hex(randomblob(1000)))", []).unwrap();
            let pages = checkpoints.pages.load(Ordering::Relaxed);
            if pages < before {
                return true;
            }
            before = pages;
            checkpoints.look(connection);
        }
        false
    }

    #[test]
    fn the_log_begins_anew_while_it_is_written() {
        let folder = std::env::temp_dir().join(format!("slipform-checkpoint-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rows.db");
        let mut connection = open::writer(Some(&path)).unwrap();
        connection.execute_batch("CREATE TABLE rows (text TEXT)").unwrap();
        let mut checkpoints = Checkpoints::after(64, &mut connection, &path).unwrap();
        assert!(begins_anew(&connection, &mut checkpoints));
        assert!(begins_anew(&connection, &mut checkpoints), "and again");

        // Whoever reads keeps it from that, and nothing else.
        let reader = open::reader(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM rows").unwrap();
        let count = |connection: &Connection| -> i64 {
            connection.query_row("SELECT count(*) FROM rows", [], |row| row.get(0)).unwrap()
        };
        let seen = count(&reader);
        for _ in 0..1_000 {
            connection.execute("INSERT INTO rows (text) VALUES ('x')", []).unwrap();
            checkpoints.look(&connection);
        }
        assert!(checkpoints.pages.load(Ordering::Relaxed) > 1_000);
        assert_eq!((count(&reader), count(&connection)), (seen, seen + 1_000));
        reader.execute_batch("COMMIT").unwrap();
        assert!(begins_anew(&connection, &mut checkpoints));
        drop((connection, reader, checkpoints));
        std::fs::remove_dir_all(folder).unwrap();
    }
}

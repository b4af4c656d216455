//! Writes JSON Lines files for reporting: one line per ended run, failed validation, plan and escalation.
//!
//! The lines are derived from the journal, so the folder can be deleted and is then rebuilt. After an
//! interruption, writing continues at the stored cursor; lines that already exist are recognized by their
//! event.

mod cursor;
mod folder;
mod line;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use slipform_store::Store;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use folder::Folder;
use line::lines;

/// Maximum number of events per read. Each batch is synced to disk once.
const BATCH: usize = 5_000;

/// Minimum interval between reads.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Polling interval without notifications, because a commit can become visible later.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Time limit of [`Analytics::catch_up`]. The next process writes the rest.
const CATCH_UP_MAX: Duration = Duration::from_secs(3);

/// Delay before retrying while another process writes.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Writes the files of a project. Clones share the same state.
#[derive(Debug, Clone)]
pub struct Analytics {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    folder: PathBuf,
    database: String,
    /// Whether the current write failure has been logged.
    is_failure_logged: AtomicBool,
}

/// Why a write attempt failed.
enum AnalyticsError {
    Store,
    File(io::Error),
}

impl From<slipform_store::Error> for AnalyticsError {
    fn from(_: slipform_store::Error) -> AnalyticsError {
        AnalyticsError::Store
    }
}

impl Analytics {
    /// Creates a writer for the store at address `database`. Each address has its own cursor in `folder`.
    pub fn new(store: Store, folder: &Path, database: &str) -> Analytics {
        let (folder, database) = (folder.to_owned(), database.to_owned());
        Analytics {
            inner: Arc::new(Inner { store, folder, database, is_failure_logged: AtomicBool::new(false) }),
        }
    }

    /// Writes new lines, forever.
    pub async fn run(&self) {
        let mut notifications = self.inner.store.notifications();
        loop {
            notifications.mark_unchanged();
            self.attempt().await;
            sleep(READ_INTERVAL).await;
            let _ = timeout(POLL_INTERVAL, notifications.changed()).await;
        }
    }

    /// Writes all pending lines before the process exits, within a time limit.
    pub async fn catch_up(&self) {
        let writing = async {
            while !self.attempt().await {
                sleep(RETRY_DELAY).await;
            }
        };
        let _ = timeout(CATCH_UP_MAX, writing).await;
    }

    /// Writes pending lines. Returns false if another process is writing. A failure is logged once and
    /// otherwise ignored.
    async fn attempt(&self) -> bool {
        match self.write().await {
            Ok(has_lock) => {
                self.inner.is_failure_logged.store(false, Ordering::Relaxed);
                has_lock
            }
            // Other components report an unavailable store.
            Err(AnalyticsError::Store) => true,
            Err(AnalyticsError::File(error)) => {
                if !self.inner.is_failure_logged.swap(true, Ordering::Relaxed) {
                    let folder = self.inner.folder.display();
                    tracing::warn!(%folder, %error, "analytics cannot be written; runs continue without them");
                }
                true
            }
        }
    }

    /// Writes pending lines. Returns false if another process is writing.
    async fn write(&self) -> Result<bool, AnalyticsError> {
        let inner = self.inner.clone();
        let opened = on_blocking_thread(move || Folder::open(&inner.folder, &inner.database)).await?;
        let Some(mut folder) = opened else { return Ok(false) };
        let store = &self.inner.store;
        // Another database uses the address now, or the last events were deleted.
        if store.last_position().await? < folder.position() {
            folder.restart();
        }
        loop {
            let milestones = store.milestones(folder.position(), BATCH).await?;
            let Some(last) = milestones.last() else { break };
            let (position, is_last) = (last.event.position, milestones.len() < BATCH);
            folder = on_blocking_thread(move || {
                folder.write(milestones.iter().flat_map(lines).collect(), position)?;
                Ok(folder)
            })
            .await?;
            if is_last {
                break;
            }
        }
        on_blocking_thread(move || folder.mark_complete()).await?;
        Ok(true)
    }
}

/// Runs file operations on the blocking thread pool.
async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, AnalyticsError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(AnalyticsError::File)
}

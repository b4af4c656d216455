//! Files for those who count: a line for each run that ended, and for each thing that went wrong on the way.
//!
//! They are written from the journal and hold nothing that it does not, so that the folder can be deleted: it is written anew.
//! Whoever is interrupted goes on where it was; a line that is there already is known by its event.

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

/// The most events that are read at once. Lines of each such batch wait for the disk once.
const BATCH: usize = 5_000;

/// How often it is looked for news at most, so that a busy store is read seldom.
const EVERY: Duration = Duration::from_secs(1);

/// How often it is looked without news: what was committed may become visible later.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How long whoever is about to go writes, or waits for another that does. What is left then is for the next one.
const CATCH_UP_MAX: Duration = Duration::from_secs(3);

/// How soon it is tried again where another writes.
const WAIT: Duration = Duration::from_millis(20);

/// Writes the files of a project. Cloning it gives another handle to the same.
#[derive(Debug, Clone)]
pub struct Analytics {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    folder: PathBuf,
    database: String,
    /// Whether it was said that nothing can be written.
    is_told: AtomicBool,
}

/// Why nothing more is written for now.
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
    /// The files of a project's `folder` about a store, whose address is `database`: each is read from where it was left.
    pub fn new(store: Store, folder: &Path, database: &str) -> Analytics {
        let (folder, database) = (folder.to_owned(), database.to_owned());
        Analytics { inner: Arc::new(Inner { store, folder, database, is_told: AtomicBool::new(false) }) }
    }

    /// Writes for as long as it is polled.
    pub async fn run(&self) {
        let mut news = self.inner.store.notifications();
        loop {
            news.mark_unchanged();
            self.attempt().await;
            sleep(EVERY).await;
            let _ = timeout(LOOK_AGAIN, news.changed()).await;
        }
    }

    /// Writes what there is, for whoever is about to go: not for long, whatever there is to write or to wait for.
    pub async fn catch_up(&self) {
        let writing = async {
            while !self.attempt().await {
                sleep(WAIT).await;
            }
        };
        let _ = timeout(CATCH_UP_MAX, writing).await;
    }

    /// Writes what there is, unless another is at it. That nothing can be written is said once, and hurts nobody.
    async fn attempt(&self) -> bool {
        match self.write().await {
            Ok(is_mine) => {
                self.inner.is_told.store(false, Ordering::Relaxed);
                is_mine
            }
            // A store that does not answer is told of by those who need it.
            Err(AnalyticsError::Store) => true,
            Err(AnalyticsError::File(error)) => {
                if !self.inner.is_told.swap(true, Ordering::Relaxed) {
                    let folder = self.inner.folder.display();
                    tracing::warn!(%folder, %error, "analytics cannot be written; runs go on without them");
                }
                true
            }
        }
    }

    /// Writes what there is; false where another is at it.
    async fn write(&self) -> Result<bool, AnalyticsError> {
        let inner = self.inner.clone();
        let opened = at_files(move || Folder::open(&inner.folder, &inner.database)).await?;
        let Some(mut folder) = opened else { return Ok(false) };
        let store = &self.inner.store;
        // Another database has the address now, or the last events were deleted.
        if store.last_position().await? < folder.position() {
            folder.begin_anew();
        }
        loop {
            let milestones = store.milestones(folder.position(), BATCH).await?;
            let Some(last) = milestones.last() else { break };
            let (position, is_last) = (last.event.position, milestones.len() < BATCH);
            folder = at_files(move || {
                folder.write(milestones.iter().flat_map(lines).collect(), position)?;
                Ok(folder)
            })
            .await?;
            if is_last {
                break;
            }
        }
        at_files(move || folder.settle()).await?;
        Ok(true)
    }
}

/// Does what may wait for a disk.
async fn at_files<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, AnalyticsError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(AnalyticsError::File)
}

//! Serializes writes to the files of a folder, within the process and across processes.
//!
//! Every run has its own [`Project`](super::Project), and several runners may share a folder. `flock` on the
//! file's folder excludes all other writers in that folder. A table of locked files still excludes writers of
//! the same file in this process where a file system cannot lock folders. A thread must not hold two locks of
//! one folder: the second would wait for the first.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use cap_fs_ext::MetadataExt as _;
use cap_std::fs::Dir;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use super::{Cancellation, ProjectPath, path_error};
use crate::Error;

/// Bounds of the interval in which a waiting writer polls the lock and its cancellation.
const WAIT_MIN: Duration = Duration::from_millis(1);
const WAIT_MAX: Duration = Duration::from_millis(20);

/// Device and inode of the folder, and the name of the file in it, in lower case because some file systems
/// ignore case.
type Key = (u64, u64, String);

#[derive(Default)]
struct Table {
    locked: Mutex<HashSet<Key>>,
    unlocked: Condvar,
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::default);

/// The right to write a file. Dropping it releases the lock.
pub(crate) struct FileLock {
    key: Key,
    /// Holds the lock of the folder between processes. Closing it releases the lock.
    folder: OwnedFd,
}

impl FileLock {
    /// Waits until no other writer holds the lock.
    pub(crate) fn acquire(
        folder: &Dir,
        name: &str,
        path: &ProjectPath,
        cancel: &Cancellation,
    ) -> Result<FileLock, Error> {
        let failed = |error: std::io::Error| path_error(path, &error);
        let metadata = folder.dir_metadata().map_err(failed)?;
        let key = (metadata.dev(), metadata.ino(), name.to_lowercase());
        // A handle of its own, because locks belong to open files and copies of a handle share one; and a readable
        // one, because handles that only name a path cannot be locked.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let own = openat(folder, ".", flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let mut locked = TABLE.locked.lock().unwrap_or_else(PoisonError::into_inner);
        while locked.contains(&key) {
            cancel.check()?;
            let waited = TABLE.unlocked.wait_timeout(locked, WAIT_MAX);
            locked = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        locked.insert(key.clone());
        drop(locked);
        let lock = FileLock { key, folder: own };
        lock.exclude_other_processes(path, cancel)?;
        Ok(lock)
    }

    fn exclude_other_processes(&self, path: &ProjectPath, cancel: &Cancellation) -> Result<(), Error> {
        let mut wait = WAIT_MIN;
        loop {
            match flock(&self.folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    cancel.check()?;
                    std::thread::sleep(wait);
                    wait = (wait * 2).min(WAIT_MAX);
                }
                // Some network file systems cannot lock folders. Writers in this process are still kept apart.
                Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(error) => return Err(path_error(path, &error.into())),
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        TABLE.locked.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        TABLE.unlocked.notify_all();
    }
}

//! Serializes writes to the files of a folder, within the process and across processes.
//!
//! Every run has its own [`Project`](super::Project), and several runners may share a folder. `flock` on the
//! file's folder excludes all other writers in that folder. A table of locked files still excludes writers of
//! the same file in this process where a file system cannot lock folders. A thread must not hold two locks of
//! one folder: the second would wait for the first. A call that writes two files acquires one lock for both.

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

/// A file to lock: its folder, its name in it, and its path for messages.
#[derive(Clone, Copy)]
pub(crate) struct LockedFile<'a> {
    pub(crate) folder: &'a Dir,
    pub(crate) name: &'a str,
    pub(crate) path: &'a ProjectPath,
}

/// The right to write one or more files. Dropping it releases the lock.
pub(crate) struct FileLock {
    /// Hold the locks of the folders between processes. Closing them releases the locks.
    _folders: Vec<OwnedFd>,
    _entries: TableEntries,
}

/// The files of a lock in the table. Dropping them removes them from it.
struct TableEntries(Vec<Key>);

impl FileLock {
    /// Waits until no other writer holds a lock of these files.
    pub(crate) fn acquire(files: &[LockedFile<'_>], cancel: &Cancellation) -> Result<FileLock, Error> {
        let mut keyed = Vec::new();
        for file in files {
            let metadata = file.folder.dir_metadata().map_err(|error| path_error(file.path, &error))?;
            keyed.push(((metadata.dev(), metadata.ino(), file.name.to_lowercase()), *file));
        }
        // Every writer locks folders in the same order, so that no two wait for each other.
        keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
        keyed.dedup_by(|(one, _), (other, _)| one == other);
        let keys: Vec<Key> = keyed.iter().map(|(key, _)| key.clone()).collect();
        let mut locked = TABLE.locked.lock().unwrap_or_else(PoisonError::into_inner);
        while keys.iter().any(|key| locked.contains(key)) {
            cancel.check()?;
            let waited = TABLE.unlocked.wait_timeout(locked, WAIT_MAX);
            locked = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        locked.extend(keys.iter().cloned());
        drop(locked);
        let entries = TableEntries(keys);
        keyed.dedup_by(|(one, _), (other, _)| (one.0, one.1) == (other.0, other.1));
        let folders: Result<Vec<OwnedFd>, Error> =
            keyed.into_iter().map(|(_, file)| lock_folder(file, cancel)).collect();
        Ok(FileLock { _folders: folders?, _entries: entries })
    }
}

/// Locks the folder of a file against other processes.
fn lock_folder(file: LockedFile<'_>, cancel: &Cancellation) -> Result<OwnedFd, Error> {
    let failed = |error: Errno| path_error(file.path, &error.into());
    // A handle of its own, because locks belong to open files and copies of a handle share one; and a readable
    // one, because handles that only name a path cannot be locked.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = openat(file.folder, ".", flags, Mode::empty()).map_err(failed)?;
    let mut wait = WAIT_MIN;
    loop {
        match flock(&own, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(own),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {
                cancel.check()?;
                std::thread::sleep(wait);
                wait = (wait * 2).min(WAIT_MAX);
            }
            // Some network file systems cannot lock folders. Writers in this process are still kept apart.
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(own),
            Err(error) => return Err(failed(error)),
        }
    }
}

impl Drop for TableEntries {
    fn drop(&mut self) {
        let mut locked = TABLE.locked.lock().unwrap_or_else(PoisonError::into_inner);
        for key in &self.0 {
            locked.remove(key);
        }
        TABLE.unlocked.notify_all();
    }
}

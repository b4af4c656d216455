//! The exclusive lock of a coordinator on a SQLite database.
//!
//! Two locks make sure that no second coordinator opens the database, whatever name it uses. The lock file beside
//! the database is found through symbolic links. The lock on the database itself, on Linux, is found through hard
//! links as well.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};

use super::files::{FileIdentity, beside};
use crate::error::Error;

/// The databases that this process has locked. Closing any handle of a file releases all of the process's record
/// locks on it, including SQLite's. So a locked database is never opened a second time for its lock.
static LOCKED: Mutex<Option<HashSet<FileIdentity>>> = Mutex::new(None);

/// Held while the value lives. The system releases it when the process dies. Drop it after all connections, because
/// closing the file releases SQLite's locks.
#[derive(Debug)]
pub(crate) struct Lock {
    identity: FileIdentity,
    files: Vec<File>,
}

impl Lock {
    /// Locks an existing database. `is_exclusive` also takes the lock file.
    ///
    /// A process that shares the database with others takes only the lock on the database itself, and only if the
    /// database has several hard links: SQLite would keep one WAL per name, which corrupts the database.
    pub(crate) fn acquire(database: &Path, is_exclusive: bool) -> Result<Option<Lock>, Error> {
        let unusable =
            |error| Error::Unsuitable(format!("cannot open the database {}: {error}", database.display()));
        let has_links = has_hard_links(database).map_err(unusable)?;
        if has_links {
            tracing::warn!(
                database = %database.display(),
                "the database has several hard links; delete all but one, because SQLite keeps a write-ahead log per name"
            );
        }
        if !is_exclusive && !has_links {
            return Ok(None);
        }
        let identity = FileIdentity::read(database).map_err(unusable)?;
        let mut locked = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
        let locked = locked.get_or_insert_default();
        let resolved = database.canonicalize().map_err(unusable)?;
        let lock_file = beside(&resolved, ".lock");
        if locked.contains(&identity) {
            return Err(in_use(database, &lock_file));
        }
        let mut files = Vec::new();
        if is_exclusive {
            files.push(lock(database, &lock_file, open_lock_file(&lock_file)?)?);
        }
        // Elsewhere this kind of lock conflicts with SQLite's own.
        if cfg!(target_os = "linux") {
            files.push(lock(database, &lock_file, File::open(&resolved).map_err(unusable)?)?);
        }
        locked.insert(identity);
        Ok(Some(Lock { identity, files }))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.files.clear();
        let mut locked = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
        locked.get_or_insert_default().remove(&self.identity);
    }
}

fn open_lock_file(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .open(path)
        .map_err(|error| Error::Unsuitable(format!("cannot open the lock file {}: {error}", path.display())))
}

fn lock(database: &Path, lock_file: &Path, file: File) -> Result<File, Error> {
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(in_use(database, lock_file)),
        Err(error) => {
            Err(Error::Unsuitable(format!("cannot lock the database {}: {error}", database.display())))
        }
    }
}

fn in_use(database: &Path, lock_file: &Path) -> Error {
    Error::Locked(format!(
        "the database {} is in use by another `slipform serve`, which holds {} or the database under another name; \
         stop it or use another database",
        database.display(),
        lock_file.display()
    ))
}

#[cfg(unix)]
fn has_hard_links(path: &Path) -> std::io::Result<bool> {
    let metadata = path.metadata()?;
    Ok(metadata.is_file() && std::os::unix::fs::MetadataExt::nlink(&metadata) > 1)
}

#[cfg(not(unix))]
fn has_hard_links(_: &Path) -> std::io::Result<bool> {
    Ok(false)
}

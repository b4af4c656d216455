//! The exclusive lock of a coordinator on a SQLite database.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::Error;

/// Held while the value lives. The system releases it when the process dies.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

impl Lock {
    pub(crate) fn acquire(database: &Path) -> Result<Lock, Error> {
        let mut path = database.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|error| {
            Error::Unsuitable(format!("cannot open the lock file {}: {error}", path.display()))
        })?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked(format!(
                "the database {} is in use by another `slipform serve`, which holds {}; stop it or use another database",
                database.display(),
                path.display()
            ))),
            Err(error) => Err(Error::Unsuitable(format!("cannot lock the file {}: {error}", path.display()))),
        }
    }
}

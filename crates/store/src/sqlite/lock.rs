//! The right to be a database's only coordinator.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::Error;

/// The right, for as long as it is kept. A process that dies gives it back.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

impl Lock {
    pub(crate) fn take(database: &Path) -> Result<Lock, Error> {
        let mut path = database.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|error| {
            Error::Unsuitable(format!("the lock file {} cannot be opened: {error}", path.display()))
        })?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked(format!(
                "another `slipform serve` has the database {}: it holds {}. Stop it, or give this one a database of \
                 its own",
                database.display(),
                path.display()
            ))),
            Err(error) => {
                Err(Error::Unsuitable(format!("the lock file {} cannot be locked: {error}", path.display())))
            }
        }
    }
}

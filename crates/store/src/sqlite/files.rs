//! Detects database files that were deleted, moved or replaced while they are open.
//!
//! An open file stays usable after its name is gone. Writes to it would succeed, but the next process would not
//! find them.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The files of an open database, with the identity that each had when it was opened.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseFiles(Vec<(PathBuf, FileIdentity)>);

impl DatabaseFiles {
    /// Reads the identities. `before` is the identity of the database before it was opened; another one now means
    /// that the file was replaced in between. The WAL and its index exist once the database has been read, unless
    /// the file system supports no WAL.
    pub(crate) fn identify(path: &Path, before: FileIdentity) -> Result<DatabaseFiles, Error> {
        let database = FileIdentity::read(path).map_err(|error| missing(path, &error))?;
        if database != before {
            return Err(replaced(path));
        }
        // SQLite resolves symbolic links and keeps the WAL beside the file itself.
        let resolved = path.canonicalize().map_err(|error| missing(path, &error))?;
        let mut files = vec![(path.to_owned(), database)];
        for path in [beside(&resolved, "-wal"), beside(&resolved, "-shm")] {
            files.extend(FileIdentity::read(&path).ok().map(|identity| (path, identity)));
        }
        Ok(DatabaseFiles(files))
    }

    /// Fails if a file's path does not lead to the file that was opened. The check passes again when the file is
    /// back.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.0.iter().try_for_each(|(path, opened)| match FileIdentity::read(path) {
            Ok(found) if found == *opened => Ok(()),
            Ok(_) => Err(replaced(path)),
            Err(error) => Err(missing(path, &error)),
        })
    }
}

/// The identity of a file, whatever its name is. No other file has it while the file is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    #[cfg(unix)]
    pub(crate) fn read(path: &Path) -> io::Result<FileIdentity> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = path.metadata()?;
        Ok(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
    }

    /// Systems without inode numbers do not let open files be deleted or renamed.
    #[cfg(not(unix))]
    pub(crate) fn read(path: &Path) -> io::Result<FileIdentity> {
        path.metadata().map(|_| FileIdentity { device: 0, inode: 0 })
    }
}

/// Returns the path with an ending, such as `-wal`.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn replaced(path: &Path) -> Error {
    Error::Unavailable(format!(
        "{} was replaced by another file while it was in use; stop Slipform, put the right file in place and start again",
        path.display()
    ))
}

fn missing(path: &Path, error: &io::Error) -> Error {
    Error::Unavailable(format!(
        "{} was deleted or moved while it was in use ({error}); move it back, or stop Slipform and restore a backup",
        path.display()
    ))
}

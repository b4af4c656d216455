//! Copies a database while other processes use it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::files::beside;
use super::lock::Lock;
use super::{migrate, open};
use crate::error::Error;

/// Writes a consistent copy of the database to a new file, which only its owner can read. The file appears under its
/// name when it is complete and on disk.
pub(crate) fn backup(database: &Path, to: &Path) -> Result<(), Error> {
    if !database.exists() {
        return Err(Error::Unsuitable(format!(
            "no database at {}; run the command in the project's folder or pass `--db`",
            database.display()
        )));
    }
    if to.symlink_metadata().is_ok() {
        return Err(already_exists(to));
    }
    let _lock = Lock::acquire(database, false)?;
    let connection = open::copier(database)?;
    migrate::check(&connection)?;
    let partial = beside(to, &format!(".partial-{}", std::process::id()));
    let copied = copy(&connection, &partial, to);
    if copied.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    copied
}

fn copy(connection: &rusqlite::Connection, partial: &Path, to: &Path) -> Result<(), Error> {
    let failed = |error: io::Error| {
        Error::Unsuitable(format!(
            "cannot write the backup {}: {error}; check the permissions and the free space of its folder",
            to.display()
        ))
    };
    open::create_file(partial, true).map_err(failed)?;
    let name = partial.to_str().ok_or_else(|| {
        Error::Unsuitable(format!("cannot write the backup {}: its path is not UTF-8", to.display()))
    })?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(super::connection::error)?;
    File::open(partial).and_then(|file| file.sync_all()).map_err(failed)?;
    // Unlike a rename, a link does not replace a file that was created meanwhile.
    match std::fs::hard_link(partial, to) {
        Ok(()) => std::fs::remove_file(partial).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(already_exists(to)),
        // The file system has no hard links.
        Err(_) => std::fs::rename(partial, to).map_err(failed)?,
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| PathBuf::from("."), Path::to_owned);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

fn already_exists(path: &Path) -> Error {
    Error::Unsuitable(format!("{} already exists; pass the name of a new file", path.display()))
}

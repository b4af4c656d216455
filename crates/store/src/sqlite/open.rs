//! Opening a SQLite file.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::Error;

/// Before this version a database that two connections write to can be corrupted at a checkpoint.
const VERSION_MIN: i32 = 3_051_003;

/// How long a connection waits for another process that writes.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// The writer's cache. A group of commits may change more pages than the 2 MiB that are usual hold, and what does not fit
/// is written twice; but SQLite goes through all of the cache after every commit that has split a page.
const WRITER_CACHE_KIB: i64 = 4 * 1024;

/// The folder of the file, where it is missing.
pub(crate) fn make_folder(path: &Path) -> Result<(), Error> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => private(folder).map_err(|error| {
            Error::Unsuitable(format!(
                "the folder {} of the database cannot be made: {error}",
                folder.display()
            ))
        }),
        _ => Ok(()),
    }
}

/// Makes a folder that nobody else can read: prompts and replies are in the database.
fn private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Makes the file, where it is missing, for nobody else to read. SQLite gives the files beside it the same permissions.
/// A file that cannot be made is reported by SQLite, which knows more of the reason.
#[cfg(unix)]
fn make_private(path: &Path) {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let created = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    if created.is_err() {
        let beside = ["-wal", "-shm"].map(|ending| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            name
        });
        for file in beside.iter().map(Path::new).chain([path]) {
            // What the owner may do stays as it is, and so do another user's files.
            if let Ok(metadata) = file.metadata() {
                let mode = metadata.permissions().mode() & 0o700;
                let _ = std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode));
            }
        }
    }
}

#[cfg(not(unix))]
fn make_private(_: &Path) {}

/// The connection that writes.
pub(crate) fn writer(path: Option<&Path>) -> Result<Connection, Error> {
    if rusqlite::version_number() < VERSION_MIN {
        return Err(Error::Unsuitable(format!(
            "SQLite {} can corrupt a database; 3.51.3 or newer is needed",
            rusqlite::version()
        )));
    }
    let Some(path) = path else {
        return Connection::open_in_memory().map_err(super::connection::error);
    };
    make_private(path);
    let connection = connect(path).map_err(|error| describe(path, error))?;
    let prepare = |connection: &Connection| {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // An answered write survives a power failure.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)
    };
    prepare(&connection).map_err(|error| describe(path, error))?;
    Ok(connection)
}

/// A connection that only reads.
pub(crate) fn reader(path: &Path) -> Result<Connection, Error> {
    let connection = connect(path).map_err(|error| describe(path, error))?;
    connection.pragma_update(None, "query_only", true).map_err(super::connection::error)?;
    Ok(connection)
}

/// A connection that copies the log to the file.
pub(crate) fn copier(path: &Path) -> Result<Connection, Error> {
    let copier = || {
        let connection = connect(path)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(connection)
    };
    copier().map_err(|error| describe(path, error))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // Without the flag for URIs: a file may be called `file:x?mode=ro`.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    // Plans do not depend on parameters. Otherwise a statement whose limit is one is planned anew every time.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn describe(path: &Path, error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::{CannotOpen, NotADatabase, PermissionDenied, ReadOnly};

    let path = path.display();
    match error.sqlite_error_code() {
        Some(NotADatabase) => Error::Unsuitable(format!(
            "{path} is not a SQLite database, or a damaged one: give another path, or put a backup in its place"
        )),
        Some(CannotOpen | PermissionDenied | ReadOnly) => Error::Unsuitable(format!(
            "the database {path} cannot be opened for writing ({error}): check the permissions of the file and of its \
             folder"
        )),
        _ => super::connection::error(error),
    }
}

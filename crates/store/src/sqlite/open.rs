//! Opens SQLite connections.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::files::{FileIdentity, beside};
use crate::error::Error;

/// Earlier versions can corrupt a database during a checkpoint if two connections write to it.
const VERSION_MIN: i32 = 3_051_003;

/// Time limit for waiting until another process has finished writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Cache size of the writer. A commit group can change more pages than the default 2 MiB hold, and spilled
/// pages are written twice. A larger cache is slower, because SQLite scans it after each commit that split a
/// page.
const WRITER_CACHE_KIB: i64 = 4 * 1024;

/// Creates the database's folder if it is missing.
pub(crate) fn create_folder(path: &Path) -> Result<(), Error> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => create_private_folder(folder).map_err(|error| {
            Error::Unsuitable(format!("cannot create the database folder {}: {error}", folder.display()))
        }),
        _ => Ok(()),
    }
}

/// Creates a folder that only its owner can access, because the database contains prompts and replies.
fn create_private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Creates the file, if missing, with access for its owner only, and returns its identity. SQLite gives the `-wal`
/// and `-shm` files the same permissions. Existing files lose the permissions of other users.
pub(crate) fn prepare_file(path: &Path) -> Result<FileIdentity, Error> {
    let created = match create_file(path, true) {
        // A symbolic link to a file that does not exist yet.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !path.exists() => create_file(path, false),
        created => created,
    };
    if created.is_err() {
        restrict_permissions(path);
    }
    FileIdentity::read(path).map_err(|missing| {
        let error = created.err().unwrap_or(missing);
        Error::Unsuitable(format!(
            "cannot create the database {}: {error}; check the permissions of its folder",
            path.display()
        ))
    })
}

/// Creates an empty file that only its owner can access.
pub(crate) fn create_file(path: &Path, is_new: bool) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).create_new(is_new);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// Removes the permissions of other users from existing files. Fails silently for files of another user, whose
/// permissions are theirs to decide.
#[cfg(unix)]
fn restrict_permissions(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    for file in [beside(&path, "-wal"), beside(&path, "-shm"), beside(&path, ".lock"), path] {
        if let Ok(metadata) = file.metadata()
            && metadata.is_file()
        {
            let mode = metadata.permissions().mode() & 0o700;
            let _ = std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode));
        }
    }
}

#[cfg(not(unix))]
fn restrict_permissions(_: &Path) {}

/// Opens the read-write connection.
pub(crate) fn writer(path: Option<&Path>) -> Result<Connection, Error> {
    if rusqlite::version_number() < VERSION_MIN {
        return Err(Error::Unsuitable(format!(
            "SQLite {} can corrupt databases; version 3.51.3 or newer is required",
            rusqlite::version()
        )));
    }
    let Some(path) = path else {
        return Connection::open_in_memory().map_err(super::connection::error);
    };
    let connection = connect(path).map_err(|error| describe(path, error))?;
    let prepare = |connection: &Connection| {
        // Takes effect in a new database only, and must precede the first write.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A committed transaction survives a power failure.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)
    };
    prepare(&connection).map_err(|error| describe(path, error))?;
    Ok(connection)
}

/// Opens a read-only connection.
pub(crate) fn reader(path: &Path) -> Result<Connection, Error> {
    let connection = connect(path).map_err(|error| describe(path, error))?;
    connection.pragma_update(None, "query_only", true).map_err(super::connection::error)?;
    Ok(connection)
}

/// Opens a connection to copy an existing database.
pub(crate) fn copier(path: &Path) -> Result<Connection, Error> {
    let open = || {
        let connection = connect_with(path, OpenFlags::empty())?;
        // The copy can return the space of deleted rows, even if the original cannot.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        Ok(connection)
    };
    open().map_err(|error| describe(path, error))
}

/// Opens a connection that runs checkpoints.
pub(crate) fn checkpointer(path: &Path) -> Result<Connection, Error> {
    let open = || {
        let connection = connect(path)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(connection)
    };
    open().map_err(|error| describe(path, error))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    connect_with(path, OpenFlags::SQLITE_OPEN_CREATE)
}

fn connect_with(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    // Without the URI flag, because a file may be named `file:x?mode=ro`.
    let flags = flags
        | OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    // Makes query plans independent of parameter values. Otherwise SQLite replans a statement with a `LIMIT`
    // parameter each time.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn describe(path: &Path, error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::{CannotOpen, NotADatabase, PermissionDenied, ReadOnly};

    let path = path.display();
    match error.sqlite_error_code() {
        Some(NotADatabase) => Error::Unsuitable(format!(
            "{path} is not a SQLite database or is corrupt; use another path or restore a backup"
        )),
        Some(CannotOpen | PermissionDenied | ReadOnly) => Error::Unsuitable(format!(
            "cannot open the database {path} for writing: {error}; check the permissions of the file and its folder"
        )),
        _ => super::connection::error(error),
    }
}

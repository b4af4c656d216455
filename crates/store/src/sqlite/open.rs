//! Opens SQLite connections.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

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

/// Creates the file, if missing, with access for its owner only. SQLite gives the `-wal` and `-shm` files the
/// same permissions. Errors are ignored here because opening the file reports them in more detail.
#[cfg(unix)]
fn restrict_permissions(path: &Path) {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let created = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    if created.is_err() {
        let beside = ["-wal", "-shm"].map(|ending| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            name
        });
        for file in beside.iter().map(Path::new).chain([path]) {
            // Keeps the owner's permissions and removes all others. Fails silently for files of another user.
            if let Ok(metadata) = file.metadata() {
                let mode = metadata.permissions().mode() & 0o700;
                let _ = std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode));
            }
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
    restrict_permissions(path);
    let connection = connect(path).map_err(|error| describe(path, error))?;
    let prepare = |connection: &Connection| {
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
    // Without the URI flag, because a file may be named `file:x?mode=ro`.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
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

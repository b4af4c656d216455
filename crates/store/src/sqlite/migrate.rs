//! Migrates a SQLite database.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use crate::error::Error;
use crate::schema::{self, MIGRATIONS_SQLITE};

/// Applies the missing migrations. The transaction serializes concurrent processes.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), Error> {
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(super::connection::error)?;
    let version = version(&transaction).map_err(super::connection::error)?;
    let Some(version) = version else {
        return Err(schema::foreign_tables());
    };
    schema::check(version, MIGRATIONS_SQLITE)?;
    for (number, sql) in schema::pending(version, MIGRATIONS_SQLITE) {
        transaction
            .execute_batch(sql)
            .and_then(|()| transaction.execute("UPDATE schema_version SET version = ?1", [number]))
            .map_err(super::connection::error)?;
    }
    transaction.commit().map_err(super::connection::error)
}

/// Refuses a database that is not Slipform's or that a newer version has written. Changes nothing.
pub(crate) fn check(connection: &Connection) -> Result<(), Error> {
    let has_version = connection.table_exists(None, "schema_version").map_err(super::connection::error)?;
    let version = if has_version { version(connection).map_err(super::connection::error)? } else { None };
    version.map_or_else(|| Err(schema::foreign_tables()), |version| schema::check(version, MIGRATIONS_SQLITE))
}

/// Returns the schema version, 0 for a new database, or `None` if the database contains tables of another
/// application.
fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let count = |name: &str| {
        connection.query_row(
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name LIKE ?1",
            [name],
            |row| row.get::<_, i64>(0),
        )
    };
    if count("schema_version")? == 0 {
        if count("%")? > 0 {
            return Ok(None);
        }
        connection.execute_batch(schema::VERSION_TABLE)?;
    }
    let version = connection.query_row("SELECT version FROM schema_version", [], |row| row.get(0));
    Ok(Some(version.optional()?.unwrap_or(0)))
}

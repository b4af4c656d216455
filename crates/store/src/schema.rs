//! Schema versions and migrations. Migrations only go forward.

use crate::error::Error;

/// SQL scripts; script N (from 1) upgrades version N-1 to version N.
pub(crate) type Migrations = &'static [&'static str];

pub(crate) const MIGRATIONS_SQLITE: Migrations = &[
    include_str!("../migrations/sqlite/0001_first.sql"),
    include_str!("../migrations/sqlite/0002_figures.sql"),
    include_str!("../migrations/sqlite/0003_continuations.sql"),
    include_str!("../migrations/sqlite/0004_event_kinds.sql"),
    include_str!("../migrations/sqlite/0005_descriptions.sql"),
    include_str!("../migrations/sqlite/0006_models.sql"),
    include_str!("../migrations/sqlite/0007_reported_errors.sql"),
    include_str!("../migrations/sqlite/0008_access.sql"),
    include_str!("../migrations/sqlite/0009_clock.sql"),
    include_str!("../migrations/sqlite/0010_error_summaries.sql"),
    include_str!("../migrations/sqlite/0011_verdicts.sql"),
    include_str!("../migrations/sqlite/0012_gateway.sql"),
    include_str!("../migrations/sqlite/0013_violations.sql"),
];
pub(crate) const MIGRATIONS_POSTGRES: Migrations = &[
    include_str!("../migrations/postgres/0001_first.sql"),
    include_str!("../migrations/postgres/0002_figures.sql"),
    include_str!("../migrations/postgres/0003_continuations.sql"),
    include_str!("../migrations/postgres/0004_event_kinds.sql"),
    include_str!("../migrations/postgres/0005_descriptions.sql"),
    include_str!("../migrations/postgres/0006_models.sql"),
    include_str!("../migrations/postgres/0007_reported_errors.sql"),
    include_str!("../migrations/postgres/0008_access.sql"),
    include_str!("../migrations/postgres/0009_clock.sql"),
    include_str!("../migrations/postgres/0010_error_summaries.sql"),
    include_str!("../migrations/postgres/0011_verdicts.sql"),
    include_str!("../migrations/postgres/0012_gateway.sql"),
    include_str!("../migrations/postgres/0013_violations.sql"),
];

/// Creates the table that holds the schema version, at version 0.
pub(crate) const VERSION_TABLE: &str =
    "CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (0);";

/// Refuses a database created by a newer Slipform.
pub(crate) fn check(version: i64, migrations: Migrations) -> Result<(), Error> {
    let newest = migrations.len() as i64;
    if version <= newest {
        return Ok(());
    }
    Err(Error::Unsuitable(format!(
        "the database has schema version {version}, but this Slipform supports versions up to {newest}; use a newer \
         Slipform or another database"
    )))
}

/// Returns the migrations after `version`, with their numbers.
pub(crate) fn pending(version: i64, migrations: Migrations) -> impl Iterator<Item = (i64, &'static str)> {
    (1..).zip(migrations.iter().copied()).skip_while(move |(number, _)| *number <= version)
}

/// The error for a database that contains tables of another application.
pub(crate) fn foreign_tables() -> Error {
    Error::Unsuitable(
        "the database contains tables of another application; use a separate database for Slipform"
            .to_owned(),
    )
}

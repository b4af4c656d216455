//! The tables' versions. They only go forward.

use crate::error::Error;

/// What makes each version out of the one before, from version 1 on.
pub(crate) type Migrations = &'static [&'static str];

pub(crate) const MIGRATIONS_SQLITE: Migrations = &[
    include_str!("../migrations/sqlite/0001_first.sql"),
    include_str!("../migrations/sqlite/0002_figures.sql"),
    include_str!("../migrations/sqlite/0003_continuations.sql"),
];
pub(crate) const MIGRATIONS_POSTGRES: Migrations = &[
    include_str!("../migrations/postgres/0001_first.sql"),
    include_str!("../migrations/postgres/0002_figures.sql"),
    include_str!("../migrations/postgres/0003_continuations.sql"),
];

/// Where the version stands.
pub(crate) const VERSION_TABLE: &str =
    "CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (0);";

/// Refuses a database that a newer program has made.
pub(crate) fn check(version: i64, migrations: Migrations) -> Result<(), Error> {
    let newest = migrations.len() as i64;
    if version <= newest {
        return Ok(());
    }
    Err(Error::Unsuitable(format!(
        "the database is of version {version} and this Slipform knows versions up to {newest}: use the newer Slipform \
         that made it, or another database"
    )))
}

/// What is missing, with its numbers.
pub(crate) fn missing(version: i64, migrations: Migrations) -> impl Iterator<Item = (i64, &'static str)> {
    (1..).zip(migrations.iter().copied()).skip_while(move |(number, _)| *number <= version)
}

/// There are tables, and they are not ours.
pub(crate) fn foreign() -> Error {
    Error::Unsuitable(
        "the database holds the tables of something else: give Slipform one of its own".to_owned(),
    )
}

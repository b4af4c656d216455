//! Where a store is.

use std::path::PathBuf;

use crate::error::Error;

/// The address of a database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A SQLite file; none for a database in memory.
    Sqlite(Option<PathBuf>),
    /// A PostgreSQL server.
    Postgres(String),
}

impl Address {
    pub(crate) fn read(text: &str) -> Result<Address, Error> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Address::Postgres(text.to_owned()));
        }
        match text.strip_prefix("sqlite:") {
            Some(":memory:") => Ok(Address::Sqlite(None)),
            Some(path) if !path.trim_start_matches("//").is_empty() => {
                Ok(Address::Sqlite(Some(PathBuf::from(path.strip_prefix("//").unwrap_or(path)))))
            }
            // The text is not repeated: it may hold a password.
            _ => Err(Error::Address(
                "a store is named by `sqlite:PATH`, `sqlite::memory:` or `postgres://USER@HOST/DATABASE`"
                    .to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_database() {
        let file = |path: &str| Address::Sqlite(Some(PathBuf::from(path)));
        assert_eq!(Address::read("sqlite::memory:").unwrap(), Address::Sqlite(None));
        assert_eq!(Address::read("sqlite:a/b.db").unwrap(), file("a/b.db"));
        assert_eq!(Address::read("sqlite:/a/b.db").unwrap(), file("/a/b.db"));
        assert_eq!(Address::read("sqlite:///a/b.db").unwrap(), file("/a/b.db"));
        assert!(matches!(Address::read("postgresql://host/name").unwrap(), Address::Postgres(_)));
        for text in ["", "sqlite:", "sqlite://", "mysql://host", "a/b.db"] {
            assert!(matches!(Address::read(text), Err(Error::Address(_))), "{text}");
        }
    }
}

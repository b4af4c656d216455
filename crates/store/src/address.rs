//! Parses store addresses.

use std::path::PathBuf;

use crate::error::Error;
use crate::postgres::target;

/// A parsed store address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A SQLite file, or `None` for an in-memory database.
    Sqlite(Option<PathBuf>),
    /// A PostgreSQL connection URL.
    Postgres(String),
}

impl Address {
    pub(crate) fn read(text: &str) -> Result<Address, Error> {
        if target::SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(Address::Postgres(text.to_owned()));
        }
        match text.strip_prefix("sqlite:") {
            Some(":memory:") => Ok(Address::Sqlite(None)),
            Some(path) if !path.trim_start_matches("//").is_empty() => {
                Ok(Address::Sqlite(Some(PathBuf::from(path.strip_prefix("//").unwrap_or(path)))))
            }
            // The message omits the address because it can contain a password.
            _ => Err(Error::Address(
                "invalid database address; use `sqlite:PATH`, `sqlite::memory:` or `postgres://USER@HOST/DATABASE`"
                    .to_owned(),
            )),
        }
    }
}

/// Returns a store address for messages. That of PostgreSQL has no password and no parameters.
pub fn shown_address(address: &str) -> String {
    match Address::read(address) {
        Ok(Address::Postgres(address)) => target::shown(&address),
        _ => address.to_owned(),
    }
}

/// Returns the password in a store address, decoded and as it is written there; empty without a password.
pub fn address_passwords(address: &str) -> Vec<String> {
    target::passwords(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_parsed_by_scheme() {
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

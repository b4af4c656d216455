//! Finds the password of a PostgreSQL user where libpq finds it: `PGPASSWORD`, then the password file.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use slipform_types::env;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Maximum size of a password file. A longer one is not a password file, and is ignored.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The port of addresses without one.
const PORT_DEFAULT: u16 = 5432;

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Password(String),
    /// No password, and where to put one. The server may need none.
    Nothing(String),
}

/// Searches for the password of an address that contains none. `file` is the address's `passfile`.
pub(super) fn find(
    config: &Config,
    file: Option<PathBuf>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Found {
    let read = |name: &str| environment(name).filter(|value| !value.is_empty());
    if let Some(password) = read(env::PGPASSWORD) {
        return Found::Password(password);
    }
    let file = file.or_else(|| read(env::PGPASSFILE).map(PathBuf::from));
    let Some(file) = file.or_else(|| read(env::HOME).map(|home| Path::new(&home).join(".pgpass"))) else {
        return Found::Nothing(format!("set {}", env::PGPASSWORD));
    };
    let user = config.get_user().map(str::to_owned).or_else(|| read("USER")).unwrap_or_default();
    let key = Key::of(config, &user);
    match search(&file, &key) {
        Ok(Some(password)) => Found::Password(password),
        Ok(None) => {
            Found::Nothing(format!("set {}, or add a line for {key} to {}", env::PGPASSWORD, file.display()))
        }
        Err(problem) => {
            Found::Nothing(format!("set {}; {} is not used: {problem}", env::PGPASSWORD, file.display()))
        }
    }
}

/// What a line of a password file is compared with.
struct Key {
    /// The host name. A socket is also called `localhost`.
    hosts: Vec<String>,
    port: String,
    database: String,
    user: String,
}

impl Key {
    fn of(config: &Config, user: &str) -> Key {
        let hosts = match config.get_hosts().first() {
            Some(Host::Tcp(name)) => vec![name.clone()],
            #[cfg(unix)]
            Some(Host::Unix(path)) => vec![path.display().to_string(), "localhost".to_owned()],
            None => config.get_hostaddrs().iter().take(1).map(ToString::to_string).collect(),
        };
        let port = config.get_ports().first().copied().unwrap_or(PORT_DEFAULT).to_string();
        let database = config.get_dbname().unwrap_or(user).to_owned();
        Key { hosts, port, database, user: user.to_owned() }
    }

    /// Returns the password of a line that matches.
    fn password(&self, line: &str) -> Option<String> {
        let mut fields = fields(line);
        let password = fields.pop().filter(|_| fields.len() == 4)?;
        let is = |field: &Field, value: &str| field.is_wildcard || field.text == value;
        let is_match = (fields[0].is_wildcard || self.hosts.contains(&fields[0].text))
            && is(&fields[1], &self.port)
            && is(&fields[2], &self.database)
            && is(&fields[3], &self.user);
        is_match.then_some(password.text)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = self.hosts.first().map(String::as_str).unwrap_or_default();
        write!(formatter, "{host}:{}:{}:{}", self.port, self.database, self.user)
    }
}

/// One field of a line.
struct Field {
    text: String,
    /// Whether the field is an unescaped `*`, which matches everything.
    is_wildcard: bool,
}

/// Splits `host:port:database:user:password`. A backslash escapes `:` and `\`. The password extends to the end of the
/// line.
fn fields(line: &str) -> Vec<Field> {
    let (mut fields, mut text, mut is_escaped) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.peek().is_some() => {
                is_escaped = true;
                text.extend(characters.next());
            }
            ':' if fields.len() < 4 => {
                fields
                    .push(Field { is_wildcard: text == "*" && !is_escaped, text: std::mem::take(&mut text) });
                is_escaped = false;
            }
            _ => text.push(character),
        }
    }
    fields.push(Field { text, is_wildcard: false });
    fields
}

/// Returns the password of the first line that matches. As in libpq, a file that others can read is not used.
fn search(path: &Path, key: &Key) -> Result<Option<String>, String> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "the file does not exist".to_owned(),
        _ => error.to_string(),
    };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::mode(&metadata) & 0o077 != 0 {
        return Err(format!("other users have access to it; run `chmod 600 {}`", path.display()));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err("it is too large for a password file".to_owned());
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines.into_iter().find_map(|line| key.password(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_line(line: &str) -> Option<String> {
        let config: Config = "postgres://me@db.internal:5433/runs".parse().unwrap();
        Key::of(&config, "me").password(line)
    }

    #[test]
    fn password_line_matches_host_port_database_and_user() {
        for line in ["db.internal:5433:runs:me:secret", "*:*:*:*:secret", "db.internal:*:runs:*:secret"] {
            assert_eq!(find_line(line).as_deref(), Some("secret"), "{line}");
        }
        for line in [
            "",
            "secret",
            "db.internal:5433:runs:secret",
            "other:5433:runs:me:secret",
            "db.internal:5432:runs:me:secret",
            "db.internal:5433:other:me:secret",
            "db.internal:5433:runs:other:secret",
            r"\*:*:*:*:secret",
        ] {
            assert_eq!(find_line(line), None, "{line}");
        }
        let escaped = r"*:*:*:*:a\:b\\c:d";
        assert_eq!(find_line(escaped).as_deref(), Some(r"a:b\c:d"));
    }

    #[test]
    fn socket_matches_localhost_and_its_folder() {
        let config: Config = "postgres://me@%2Frun%2Fpg/runs".parse().unwrap();
        let key = Key::of(&config, "me");
        for line in ["localhost:5432:runs:me:secret", "/run/pg:5432:runs:me:secret"] {
            assert_eq!(key.password(line).as_deref(), Some("secret"), "{line}");
        }
    }
}

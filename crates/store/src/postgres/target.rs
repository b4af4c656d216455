//! Parses a PostgreSQL address into what a connection needs.

use std::path::PathBuf;

use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Connection, Socket};

use super::connection::convert_error;
use super::password::{self, Found};
use super::pool::CONNECT_TIMEOUT;
use super::tls::{self, Connector, EncryptedStream};
use crate::error::Error;

/// Maximum time that sent data may stay unacknowledged (`TCP_USER_TIMEOUT`).
const UNACKNOWLEDGED_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// The schemes of PostgreSQL addresses.
pub(crate) const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// A server, and how to connect to it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    config: Config,
    tls: Connector,
    /// Where to put the password, for a server that asks for one. `None` if there is a password.
    password_advice: Option<String>,
}

impl Target {
    /// Parses an address, and looks for the password if the address contains none.
    pub(crate) fn read(address: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Target, Error> {
        let Parsed { mut config, own } = parse(address)?;
        config
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(UNACKNOWLEDGED_MAX)
            .application_name("slipform");
        add_host_names(&mut config);
        let mode = own.mode.unwrap_or_default();
        config.ssl_mode(if is_socket(&config) { SslMode::Disable } else { mode.negotiation() });
        let tls = Connector::new(mode, own.roots.as_deref(), environment)?;
        let password_advice = match config.get_password() {
            Some(_) => None,
            None => match password::find(&config, own.password_file, environment) {
                Found::Password(password) => {
                    config.password(password);
                    None
                }
                Found::Nothing(advice) => Some(advice),
            },
        };
        Ok(Target { config, tls, password_advice })
    }

    /// Connects. The caller has to poll the connection.
    pub(crate) async fn connect(
        &self,
    ) -> Result<(Client, Connection<Socket, EncryptedStream<Socket>>), ConnectError> {
        let connected = self.config.connect(self.tls.clone()).await;
        let connected = match connected {
            // As in libpq: the server may offer TLS that does not work, or refuse this user with TLS.
            Err(error) if self.config.get_ssl_mode() == SslMode::Prefer && may_work_without_tls(&error) => {
                let mut config = self.config.clone();
                config.ssl_mode(SslMode::Disable).connect(self.tls.clone()).await
            }
            connected => connected,
        };
        connected.map_err(|error| self.convert_error(&error))
    }

    fn convert_error(&self, error: &tokio_postgres::Error) -> ConnectError {
        let is_limit = error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS);
        let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        let error = match &self.password_advice {
            Some(advice) if cause == "password missing" => {
                Error::Unsuitable(format!("PostgreSQL asks for a password, and none is configured; {advice}"))
            }
            _ => tls::refusal(error).map_or_else(|| convert_error(error), Error::Unsuitable),
        };
        ConnectError { error, is_limit }
    }
}

fn may_work_without_tls(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) || tls::refusal(error).is_some()
}

/// Uses the addresses of hosts without a name as their names, which TLS needs.
fn add_host_names(config: &mut Config) {
    if config.get_hosts().is_empty() {
        for address in config.get_hostaddrs().to_vec() {
            config.host(address.to_string());
        }
    }
}

/// Whether the server is reached by a socket on this machine, where PostgreSQL does not use TLS.
fn is_socket(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| !matches!(host, Host::Tcp(_)))
}

/// Why a connection could not be established.
#[derive(Debug)]
pub(crate) struct ConnectError {
    pub(crate) error: Error,
    /// Whether the server has reached its connection limit.
    pub(crate) is_limit: bool,
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> ConnectError {
        ConnectError { error, is_limit: false }
    }
}

/// Parameters of libpq that tokio-postgres does not know.
#[derive(Debug, Default)]
struct OwnParameters {
    password_file: Option<PathBuf>,
    mode: Option<tls::Mode>,
    roots: Option<String>,
}

struct Parsed {
    config: Config,
    own: OwnParameters,
}

/// Parses an address. Messages omit it, because it can contain a password.
fn parse(address: &str) -> Result<Parsed, Error> {
    let mut own = OwnParameters::default();
    let (base, query) = address.split_once('?').unwrap_or((address, ""));
    let mut others = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("sslmode", value)) => own.mode = Some(tls::Mode::read(&decode(value)?)?),
            Some(("sslrootcert", value)) => own.roots = Some(decode(value)?),
            Some(("passfile", value)) => own.password_file = Some(PathBuf::from(decode(value)?)),
            _ => others.push(parameter),
        }
    }
    let rest = if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
    let config = rest.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Error::Address(format!("cannot parse the PostgreSQL address{cause}"))
    })?;
    Ok(Parsed { config, own })
}

/// Decodes `%XX`.
fn decode(text: &str) -> Result<String, Error> {
    let invalid = || Error::Address("the PostgreSQL address has an invalid `%` sequence".to_owned());
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(invalid)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| invalid())?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

/// Returns an address for messages: user, hosts, ports and database, without the password and the parameters.
pub(crate) fn shown(address: &str) -> String {
    let scheme = SCHEMES.into_iter().find(|scheme| address.starts_with(scheme)).unwrap_or(SCHEMES[0]);
    let Ok(Parsed { config, .. }) = parse(address) else { return format!("{scheme}…") };
    let names = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let mut names: Vec<String> = names.collect();
    if names.is_empty() {
        names.extend(config.get_hostaddrs().iter().map(ToString::to_string));
    }
    let ports = config.get_ports();
    let hosts = names.iter().enumerate().map(|(index, name)| {
        let port = ports.get(index).or(ports.first());
        port.map_or_else(|| name.clone(), |port| format!("{name}:{port}"))
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let database = config.get_dbname().map(|name| format!("/{name}")).unwrap_or_default();
    format!("{scheme}{user}{hosts}{database}")
}

/// Returns the password in an address, decoded and as it is written there.
pub(crate) fn passwords(address: &str) -> Vec<String> {
    let Some(rest) = SCHEMES.into_iter().find_map(|scheme| address.strip_prefix(scheme)) else {
        return Vec::new();
    };
    // As tokio-postgres reads it: everything before the first `@`.
    let user = rest.split_once('@').and_then(|(user, _)| user.split_once(':')).map(|(_, password)| password);
    let (_, query) = rest.split_once('?').unwrap_or_default();
    let named = query.split('&').filter_map(|parameter| parameter.split_once('='));
    let named = named.filter(|(name, _)| decode(name).is_ok_and(|name| name == "password"));
    let written = user.into_iter().chain(named.map(|(_, value)| value)).filter(|value| !value.is_empty());
    let both = written.flat_map(|written| decode(written).ok().into_iter().chain([written.to_owned()]));
    let mut passwords: Vec<String> = both.collect();
    passwords.dedup();
    passwords
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_address_has_no_password() {
        for (address, expected) in [
            ("postgres://me:secret@db:5433/runs", "postgres://me@db:5433/runs"),
            ("postgresql://me@db/runs?password=secret&sslmode=require", "postgresql://me@db:5432/runs"),
            ("postgres://me:sec%40ret@a,b:6/runs?application_name=a@b", "postgres://me@a:5432,b:6/runs"),
            ("postgres://me:secret@[::1]:5433", "postgres://me@[::1]:5433"),
            ("postgres://me:secret@h:nope/x", "postgres://…"),
        ] {
            assert_eq!(shown(address), expected);
        }
    }

    #[test]
    fn password_in_address_is_found_decoded_and_as_written() {
        for (address, expected) in [
            ("postgres://me:secret@db/runs", &["secret"][..]),
            ("postgres://me:s%40c@db/runs", &["s@c", "s%40c"]),
            ("postgres://me@db/runs?x=1&password=secret", &["secret"]),
            ("postgres://me@db/runs?p%61ssword=secret", &["secret"]),
            ("postgres://me:%zz@db/runs", &["%zz"]),
            ("postgres://me:@db:5432/runs", &[]),
            ("postgres://db:5432/runs", &[]),
            ("sqlite:a@b:c", &[]),
        ] {
            assert_eq!(passwords(address), expected, "{address}");
        }
    }
}

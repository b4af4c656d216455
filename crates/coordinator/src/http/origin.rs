//! Restricts a server without tokens to this machine. Pages of other sites in a local browser could otherwise
//! reach it, directly or by DNS rebinding.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use slipform_api::{Code, Error};

/// The scheme that the server itself speaks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// The beginning of origins with this scheme, and the port that browsers leave out of them.
    fn prefix_and_port(self) -> (&'static str, &'static str) {
        match self {
            Scheme::Http => ("http://", "80"),
            Scheme::Https => ("https://", "443"),
        }
    }
}

/// Accepts requests that name a loopback host and carry no `Origin`, or that of the server itself. Other local servers
/// show pages that are not ours.
pub(super) fn check(scheme: Scheme, uri: &Uri, headers: &HeaderMap) -> Result<(), Error> {
    let hosts = headers.get_all(header::HOST).iter().map(HeaderValue::to_str);
    let named: Vec<_> = hosts.chain(uri.authority().map(|authority| Ok(authority.as_str()))).collect();
    let is_ours = |host: &Result<&str, _>| host.as_ref().is_ok_and(|host| is_loopback(host));
    if named.is_empty() || !named.iter().all(is_ours) {
        let message = "the request names another host; without tokens this server only accepts localhost, \
                       127.0.0.1 and [::1]";
        return Err(Error::new(Code::Forbidden, message));
    }
    for origin in headers.get_all(header::ORIGIN) {
        let is_own = |host: &Result<&str, _>| {
            host.as_ref()
                .is_ok_and(|host| origin.to_str().is_ok_and(|origin| is_own_origin(scheme, origin, host)))
        };
        if !named.iter().all(is_own) {
            let message = "the request comes from a page of another site; without tokens only pages of this server are \
                           allowed, with the same scheme, host and port";
            return Err(Error::new(Code::Forbidden, message));
        }
    }
    Ok(())
}

/// Whether an origin is that of the server, which the request names as `host` or `host:port`.
fn is_own_origin(scheme: Scheme, origin: &str, authority: &str) -> bool {
    let (prefix, default_port) = scheme.prefix_and_port();
    let Some(origin) = origin.strip_prefix(prefix) else { return false };
    let (host, port) = split(origin);
    let (own_host, own_port) = split(authority);
    host.eq_ignore_ascii_case(own_host) && port.unwrap_or(default_port) == own_port.unwrap_or(default_port)
}

/// Splits `host` or `host:port`.
fn split(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => {
            (host, Some(port))
        }
        _ => (authority, None),
    }
}

/// Whether `host` or `host:port` is a loopback name.
fn is_loopback(authority: &str) -> bool {
    let (host, _) = split(authority);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse::<std::net::Ipv6Addr>().is_ok_and(|address| address.is_loopback()),
        None => {
            let is_address =
                host.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4() && address.is_loopback());
            is_address || host.eq_ignore_ascii_case("localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_accepted() {
        for host in
            ["localhost", "LOCALHOST:8765", "127.0.0.1", "127.0.0.1:1", "127.8.9.1:80", "[::1]", "[::1]:80"]
        {
            assert!(is_loopback(host), "{host}");
            assert!(is_own_origin(Scheme::Http, &format!("http://{host}"), host), "{host}");
        }
        let others = [
            "",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org:80",
            "10.0.0.1",
            "[::2]:80",
            "::1",
            "localhost:80:80",
            "localhost@example.org",
            "[::1",
            "localhost:8x",
            "0.0.0.0",
            "localhost.",
        ];
        for host in others {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn origin_is_own_with_same_scheme_host_and_port_only() {
        let host = "localhost:8765";
        assert!(is_own_origin(Scheme::Http, "http://LocalHost:8765", host));
        assert!(
            is_own_origin(Scheme::Http, "http://localhost", "localhost:80")
                && is_own_origin(Scheme::Http, "http://[::1]:80", "[::1]")
        );
        assert!(is_own_origin(Scheme::Https, "https://localhost:8765", host));
        assert!(is_own_origin(Scheme::Https, "https://localhost", "localhost:443"));
        assert!(!is_own_origin(Scheme::Https, "http://localhost:8765", host));
        for origin in [
            "null",
            "",
            "file://",
            "localhost:8765",
            "http://localhost:8765/x",
            "https://localhost:8765",
            "http://localhost:5173",
            "http://localhost",
            "http://127.0.0.1:8765",
            "http://localhost:8765.example.org",
        ] {
            assert!(!is_own_origin(Scheme::Http, origin, host), "{origin}");
        }
    }
}

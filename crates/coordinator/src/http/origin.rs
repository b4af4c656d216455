//! Restricts a server without tokens to this machine. Pages of other sites in a local browser could otherwise
//! reach it, directly or by DNS rebinding.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use slipform_api::{Code, Error};

/// Accepts requests that name a loopback host and carry no `Origin` or a local one.
pub(super) fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), Error> {
    let hosts = headers.get_all(header::HOST).iter().map(HeaderValue::to_str);
    let named: Vec<_> = hosts.chain(uri.authority().map(|authority| Ok(authority.as_str()))).collect();
    let is_ours = |host: &Result<&str, _>| host.as_ref().is_ok_and(|host| is_loopback(host));
    if named.is_empty() || !named.iter().all(is_ours) {
        let message = "the request names another host; without tokens this server only accepts localhost, \
                       127.0.0.1 and [::1]";
        return Err(Error::new(Code::Forbidden, message));
    }
    for origin in headers.get_all(header::ORIGIN) {
        if !origin.to_str().is_ok_and(is_own_origin) {
            let message =
                "the request comes from a page of another site; without tokens only local pages are allowed";
            return Err(Error::new(Code::Forbidden, message));
        }
    }
    Ok(())
}

fn is_own_origin(origin: &str) -> bool {
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    host.is_some_and(is_loopback)
}

/// Whether `host` or `host:port` is a loopback name.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => authority,
    };
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
            assert!(is_own_origin(&format!("http://{host}")), "{host}");
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
        for origin in ["null", "", "file://", "localhost", "http://localhost/x", "ftp://localhost"] {
            assert!(!is_own_origin(origin), "{origin}");
        }
    }
}

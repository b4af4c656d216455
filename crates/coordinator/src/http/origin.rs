//! Where a request comes from. A server without tokens is for this machine only, and a page of somebody else's that
//! runs in this machine's browser is not this machine: its name may lead here (DNS rebinding), and it may send
//! requests here.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use slipform_api::{Code, Error};

/// Lets in what was sent to this machine under its own name, by nobody or by a page of its own.
pub(super) fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), Error> {
    let hosts = headers.get_all(header::HOST).iter().map(HeaderValue::to_str);
    let named: Vec<_> = hosts.chain(uri.authority().map(|authority| Ok(authority.as_str()))).collect();
    let is_ours = |host: &Result<&str, _>| host.as_ref().is_ok_and(|host| is_loopback(host));
    if named.is_empty() || !named.iter().all(is_ours) {
        let message = "the request was sent to another host: without tokens this server answers as localhost, \
                       127.0.0.1 and [::1] only";
        return Err(Error::new(Code::Forbidden, message));
    }
    for origin in headers.get_all(header::ORIGIN) {
        if !origin.to_str().is_ok_and(is_own_origin) {
            let message = "the request comes from another site's page: without tokens only pages of this machine may ask";
            return Err(Error::new(Code::Forbidden, message));
        }
    }
    Ok(())
}

fn is_own_origin(origin: &str) -> bool {
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    host.is_some_and(is_loopback)
}

/// Whether `host` or `host:port` names this machine and nothing else.
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
    fn only_this_machine_has_this_machines_names() {
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

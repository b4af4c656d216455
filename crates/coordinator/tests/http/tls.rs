//! The API over TLS.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use slipform_coordinator::http::{Server, ServerOptions, TlsFiles};
use slipform_testkit::{TestAuthority, TestCertificate, TestFolder, TestServer, wait_until_async};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::Requests as _;
use crate::support::client::Connection;

/// Writes a certificate and its key, readable by their owner only.
fn write(folder: &TestFolder, certificate: &TestCertificate) -> TlsFiles {
    let files = TlsFiles { certificate: folder.join("server.pem"), key: folder.join("server.key") };
    folder.write("server.pem", &certificate.certificate);
    folder.write("server.key", &certificate.key);
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
    files
}

/// Starts a server with a certificate for `localhost`.
async fn start(
    authority: &TestAuthority,
    change: impl FnOnce(&mut ServerOptions),
) -> (TestServer, TestFolder) {
    let folder = TestFolder::new("tls");
    let files = write(&folder, &authority.issue(&["localhost"]));
    let server = TestServer::with(|options| {
        options.tls = Some(files);
        change(options);
    })
    .await;
    (server, folder)
}

/// Requests `/healthz` over TLS, and returns the response.
async fn get(address: SocketAddr, authority: &TestAuthority) -> std::io::Result<String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, TcpStream::connect(address).await?).await?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}

#[tokio::test]
async fn requests_over_tls_are_served_to_clients_that_trust_the_authority() {
    let authority = TestAuthority::new("ours");
    let (server, _folder) = start(&authority, |_| {}).await;
    let response = get(server.address, &authority).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
    let refused = get(server.address, &TestAuthority::new("another")).await.unwrap_err();
    assert!(refused.to_string().contains("UnknownIssuer"), "{refused}");
}

#[tokio::test]
async fn plaintext_request_on_tls_port_is_told_to_use_https() {
    let (server, _folder) = start(&TestAuthority::new("ours"), |_| {}).await;
    let message = server.get("/runs").send().await.refused(400, "InvalidRequest");
    assert!(message.contains("https://"), "{message}");
    let body = serde_json::json!({"text": "x".repeat(1_000_000)});
    server.post("/check", &body).send().await.refused(400, "InvalidRequest");
}

#[tokio::test]
async fn stalled_handshakes_do_not_delay_others() {
    let authority = TestAuthority::new("ours");
    let (server, _folder) = start(&authority, |_| {}).await;
    let mut stalled = Vec::new();
    for first in ["", "\u{16}", "\u{16}\u{3}\u{1}\u{2}"] {
        for _ in 0..40 {
            let mut connection = Connection::open(server.address).await;
            connection.write(first).await;
            stalled.push(connection);
        }
    }
    assert!(get(server.address, &authority).await.unwrap().starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn stalled_handshakes_count_as_connections_and_time_out() {
    let authority = TestAuthority::new("ours");
    let (server, _folder) = start(&authority, |options| {
        options.max_connections = 2;
        options.header_timeout = Duration::from_millis(300);
    })
    .await;
    let mut stalled = Vec::new();
    for first in ["", "\u{16}\u{3}\u{1}"] {
        let mut connection = Connection::open(server.address).await;
        connection.write(first).await;
        stalled.push(connection);
    }
    for connection in &mut stalled {
        while !connection.is_closed().await {}
    }
    let is_served = async || get(server.address, &authority).await.is_ok();
    wait_until_async("the permits are free", is_served).await;
}

#[tokio::test]
async fn connection_beyond_limit_is_closed_without_plaintext() {
    let authority = TestAuthority::new("ours");
    let (server, _folder) = start(&authority, |options| options.max_connections = 0).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received).await;
    assert!(received.is_empty(), "{received:?}");
}

#[tokio::test]
async fn renewed_certificate_is_used_without_restart() {
    let (first, second) = (TestAuthority::new("first"), TestAuthority::new("second"));
    let (server, folder) = start(&first, |_| {}).await;
    assert!(get(server.address, &first).await.is_ok());
    write(&folder, &second.issue(&["localhost"]));
    wait_until_async("the new certificate is used", async || get(server.address, &second).await.is_ok())
        .await;
    assert!(get(server.address, &first).await.is_err());
}

#[tokio::test]
async fn unusable_certificate_files_are_refused() {
    let authority = TestAuthority::new("ours");
    let server = TestServer::open().await;
    let (own, other) = (authority.issue(&["localhost"]), authority.issue(&["localhost"]));
    let cases: [(&str, &str, u32, &str); 7] = [
        ("", &own.key, 0o600, "has no certificate"),
        ("nonsense", &own.key, 0o600, "has no certificate"),
        (&own.key, &own.key, 0o600, "has no certificate"),
        (&own.certificate, "", 0o600, "cannot read the private key"),
        (&own.certificate, &own.certificate, 0o600, "cannot read the private key"),
        (&own.certificate, &other.key, 0o600, "does not belong to the certificate"),
        (&own.certificate, &own.key, 0o644, "other users have access to the private key"),
    ];
    for (certificate, key, mode, message) in cases {
        let folder = TestFolder::new("tls-unusable");
        let pair = TestCertificate { certificate: certificate.to_owned(), key: key.to_owned() };
        let files = write(&folder, &pair);
        fs::set_permissions(&files.key, fs::Permissions::from_mode(mode)).unwrap();
        let options =
            ServerOptions { tls: Some(files), ..ServerOptions::new("127.0.0.1:0".parse().unwrap()) };
        let refused = Server::bind(options, server.app.clone()).await.unwrap_err();
        assert!(refused.message.contains(message), "{message}: {}", refused.message);
        assert!(!refused.message.contains("PRIVATE"), "{}", refused.message);
    }
    let missing = TlsFiles { certificate: "/nonexistent/a".into(), key: "/nonexistent/b".into() };
    let options = ServerOptions { tls: Some(missing), ..ServerOptions::new("127.0.0.1:0".parse().unwrap()) };
    let refused = Server::bind(options, server.app.clone()).await.unwrap_err();
    assert!(refused.message.contains("cannot read the certificate /nonexistent/a"), "{}", refused.message);
}

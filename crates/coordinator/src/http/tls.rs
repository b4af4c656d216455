//! TLS for the API: reads the certificate and its key, and encrypts connections.
//!
//! A handshake is part of its connection's task: it counts against the limit of connections, and delays no other.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use slipform_api::{Code, Error};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::{self, Use};
use super::context::Context;
use super::write_timeout::WriteTimeout;

/// Time limit for a TLS handshake. It takes two round trips.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum time between two checks whether the files have changed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The first byte of a TLS connection: a handshake record.
const HANDSHAKE_RECORD: u8 = 0x16;

/// The PEM files of a server's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those of the intermediate authorities.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// The certificate in use. A renewed one is used for connections after the renewal.
pub(super) struct Tls {
    files: TlsFiles,
    current: Mutex<Current>,
}

struct Current {
    acceptor: TlsAcceptor,
    /// The state of the files when they were read, or when they were found to be invalid.
    version: Version,
    checked_at: Instant,
}

/// Identifies the contents and permissions of both files: number, length, and time of the last change.
type Version = [Option<(u64, u64, i64, i64)>; 2];

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Fails if a file cannot be read, if other users can read the key, or if the key does not belong to the
    /// certificate.
    pub(super) fn open(files: TlsFiles) -> Result<Tls, Error> {
        let version = version(&files);
        let acceptor = read(&files).map_err(|reason| Error::new(Code::InvalidRequest, reason))?;
        let current = Current { acceptor, version, checked_at: Instant::now() };
        Ok(Tls { files, current: Mutex::new(current) })
    }

    /// Returns the acceptor for a connection, after reading files that have changed. If they are invalid, the old
    /// certificate stays in use: a renewal replaces the two files one after the other.
    fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.checked_at.elapsed() >= CHECK_INTERVAL {
            current.checked_at = Instant::now();
            let version = version(&self.files);
            if version != current.version {
                match read(&self.files) {
                    Ok(acceptor) => {
                        current.acceptor = acceptor;
                        tracing::info!(file = %self.files.certificate.display(), "using the renewed certificate");
                    }
                    Err(error) => {
                        tracing::warn!(error, "cannot use the changed certificate; the old one stays in use");
                    }
                }
                current.version = version;
            }
        }
        current.acceptor.clone()
    }

    /// Performs the handshake. Returns `None` if it fails, or if the client does not use TLS, after an answer.
    async fn accept(&self, stream: TcpStream, write_timeout: Duration) -> Option<TlsStream<WriteTimeout>> {
        let mut first = [0];
        if stream.peek(&mut first).await.ok()? == 0 {
            return None;
        }
        if first[0] != HANDSHAKE_RECORD {
            refuse_plaintext(stream).await;
            return None;
        }
        self.acceptor().accept(WriteTimeout::new(stream, write_timeout)).await.ok()
    }
}

/// Serves a connection, over TLS if the server has a certificate.
pub(super) async fn serve(
    tls: Option<Arc<Tls>>,
    stream: TcpStream,
    peer: SocketAddr,
    allowed: Use,
    context: Arc<Context>,
    router: Router,
) {
    // Sends small responses without delay. An error only costs latency.
    let _ = stream.set_nodelay(true);
    let write_timeout = context.options.write_timeout;
    let Some(tls) = tls else {
        return connection::serve(WriteTimeout::new(stream, write_timeout), peer, allowed, context, router)
            .await;
    };
    let limit = HANDSHAKE_TIMEOUT.min(context.options.header_timeout);
    // Boxed, so that connections without TLS do not hold the memory of one.
    let accepting = Box::pin(timeout(limit, tls.accept(stream, write_timeout)));
    let accepted = tokio::select! {
        accepted = accepting => accepted.ok().flatten(),
        () = context.drain_started() => None,
    };
    if let Some(stream) = accepted {
        Box::pin(connection::serve(stream, peer, allowed, context, router)).await;
    }
}

/// Answers a client that does not use TLS.
async fn refuse_plaintext(mut stream: TcpStream) {
    let body = r#"{"error":"InvalidRequest","message":"this server uses TLS; write https:// instead of http://","details":null,"status_code":400}"#;
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // The handshake's time limit applies.
    let answering = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with unread data would reset the connection and discard the answer.
        let mut rest = [0; 1_024];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = answering.await;
}

fn version(files: &TlsFiles) -> Version {
    [&files.certificate, &files.key].map(|path| Some(identify(&fs::metadata(path).ok()?)))
}

#[cfg(unix)]
fn identify(metadata: &fs::Metadata) -> (u64, u64, i64, i64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn identify(metadata: &fs::Metadata) -> (u64, u64, i64, i64) {
    let changed = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let changed = changed.unwrap_or_default();
    (0, metadata.len(), i64::try_from(changed.as_secs()).unwrap_or(0), changed.subsec_nanos().into())
}

fn read(files: &TlsFiles) -> Result<TlsAcceptor, String> {
    let TlsFiles { certificate, key } = files;
    let (shown, shown_key) = (certificate.display(), key.display());
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("cannot read the certificate {shown} (server.tls_cert): {error}"))?;
    if chain.is_empty() {
        return Err(format!(
            "{shown} (server.tls_cert) has no certificate; write the path of a PEM file with the server's certificate"
        ));
    }
    check_private(key)?;
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| format!("cannot read the private key {shown_key} (server.tls_key): {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let own = CertifiedKey::from_der(chain, private, &provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => format!(
            "the key {shown_key} (server.tls_key) does not belong to the certificate {shown} (server.tls_cert)"
        ),
        error => format!("cannot use the certificate {shown} with the key {shown_key}: {error}"),
    })?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot set up TLS: {error}"))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(own)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Checks that only the owner can read a key. As in PostgreSQL, a key of root may be readable by a group.
fn check_private(key: &Path) -> Result<(), String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = fs::metadata(key).map_err(|error| {
            format!("cannot read the private key {} (server.tls_key): {error}", key.display())
        })?;
        let allowed = if metadata.uid() == 0 { 0o740 } else { 0o700 };
        if metadata.mode() & 0o777 & !allowed != 0 {
            return Err(format!(
                "other users have access to the private key {} (server.tls_key); run `chmod 600 {}`",
                key.display(),
                key.display()
            ));
        }
    }
    #[cfg(not(unix))]
    let _ = key;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipform_testkit::{TestAuthority, TestCertificate, TestFolder};

    fn write(folder: &TestFolder, pair: &TestCertificate) -> TlsFiles {
        folder.write("server.pem", &pair.certificate);
        folder.write("server.key", &pair.key);
        let key = folder.join("server.key");
        #[cfg(unix)]
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        TlsFiles { certificate: folder.join("server.pem"), key }
    }

    /// Returns whether the next connection uses another certificate than the last one.
    fn has_changed(tls: &Tls) -> bool {
        let before = tls.current.lock().unwrap().acceptor.clone();
        tls.current.lock().unwrap().checked_at -= CHECK_INTERVAL;
        !Arc::ptr_eq(before.config(), tls.acceptor().config())
    }

    #[tokio::test]
    async fn certificate_stays_in_use_until_both_files_are_replaced() {
        let (authority, folder) = (TestAuthority::new("ours"), TestFolder::new("renewal"));
        let (old, new) = (authority.issue(&["localhost"]), authority.issue(&["localhost"]));
        let tls = Tls::open(write(&folder, &old)).unwrap();
        assert!(!has_changed(&tls));
        folder.write("server.pem", "half a file");
        assert!(!has_changed(&tls));
        write(&folder, &TestCertificate { key: old.key, ..new.clone() });
        assert!(!has_changed(&tls));
        write(&folder, &new);
        assert!(has_changed(&tls));
        assert!(!has_changed(&tls));
    }
}

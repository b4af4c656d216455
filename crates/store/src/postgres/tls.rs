//! TLS to PostgreSQL, with the modes of libpq.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};
use slipform_types::env;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

use crate::error::Error;

/// The value of `sslrootcert` that selects the system's certificates.
const SYSTEM_ROOTS: &str = "system";

/// Messages of tokio-postgres, which has no other sign of these errors.
const HANDSHAKE_FAILED: &str = "error performing TLS handshake";
const NOT_SUPPORTED: &str = "server does not support TLS";

/// The `sslmode` of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mode {
    Disable,
    /// TLS if the server offers it, without verifying its certificate.
    #[default]
    Prefer,
    /// TLS; the certificate is verified only if `sslrootcert` is set.
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    pub(super) fn read(text: &str) -> Result<Mode, Error> {
        match text {
            "disable" => Ok(Mode::Disable),
            "prefer" => Ok(Mode::Prefer),
            "require" => Ok(Mode::Require),
            "verify-ca" => Ok(Mode::VerifyCa),
            "verify-full" => Ok(Mode::VerifyFull),
            _ => Err(Error::Address(
                "unknown sslmode in the PostgreSQL address; use disable, prefer, require, verify-ca or verify-full"
                    .to_owned(),
            )),
        }
    }

    /// Returns what tokio-postgres has to know; it does not verify certificates itself.
    pub(super) fn negotiation(self) -> SslMode {
        match self {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }
}

/// Makes TLS connections.
#[derive(Clone)]
pub(crate) struct Connector(Arc<ClientConfig>);

impl std::fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Connector")
    }
}

impl Connector {
    /// Creates a connector. `roots` is the address's `sslrootcert`.
    pub(super) fn new(
        mode: Mode,
        roots: Option<&str>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Connector, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Verifier::new(mode, roots, environment, provider.clone())?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Unsuitable(format!("cannot set up TLS: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Connector(Arc::new(config)))
    }
}

/// Returns why TLS cannot be used with a server, if that is the reason for an error. Trying again does not help.
pub(super) fn refusal(error: &tokio_postgres::Error) -> Option<String> {
    if !error.to_string().starts_with(HANDSHAKE_FAILED) {
        return None;
    }
    let cause = std::error::Error::source(error)?;
    match cause.downcast_ref::<io::Error>() {
        Some(failure) => {
            let reason = failure.get_ref()?.downcast_ref::<TlsError>()?;
            Some(format!("cannot make a TLS connection to PostgreSQL: {reason}"))
        }
        None if cause.to_string() == NOT_SUPPORTED => Some(
            "PostgreSQL does not offer TLS, which sslmode in the address requires; turn on `ssl` in postgresql.conf"
                .to_owned(),
        ),
        None => Some(format!("cannot make a TLS connection to PostgreSQL: {cause}")),
    }
}

/// Verifies a server's certificate as far as the mode demands it.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None` if the certificate is not verified.
    chain: Option<Chain>,
    is_name_checked: bool,
}

#[derive(Debug)]
struct Chain {
    verifier: Arc<WebPkiServerVerifier>,
    /// The trusted certificates. A server may present one of them as its own, as a self-signed certificate.
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn new(
        mode: Mode,
        roots: Option<&str>,
        environment: &dyn Fn(&str) -> Option<String>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Verifier, Error> {
        let is_verified = match mode {
            Mode::Disable | Mode::Prefer => false,
            // As in libpq, `sslrootcert` makes `require` verify the certificate.
            Mode::Require => roots.is_some(),
            Mode::VerifyCa | Mode::VerifyFull => true,
        };
        let chain = if is_verified { Some(Chain::read(roots, environment, &provider)?) } else { None };
        // The system's certificates are those of public authorities, which certify any host for its owner.
        let is_name_checked = mode == Mode::VerifyFull || (is_verified && roots == Some(SYSTEM_ROOTS));
        Ok(Verifier { provider, chain, is_name_checked })
    }
}

impl Chain {
    /// Reads the trusted certificates: `sslrootcert`, `~/.postgresql/root.crt`, otherwise those of the system.
    fn read(
        roots: Option<&str>,
        environment: &dyn Fn(&str) -> Option<String>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Chain, Error> {
        let own = environment(env::HOME).map(|home| Path::new(&home).join(".postgresql/root.crt"));
        let file = match roots {
            Some(SYSTEM_ROOTS) => None,
            Some(path) => Some(PathBuf::from(path)),
            None => own.filter(|path| path.exists()),
        };
        let trusted = match &file {
            Some(path) => read_certificates(path)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        let mut store = RootCertStore::empty();
        let (accepted, _) = store.add_parsable_certificates(trusted.iter().cloned());
        if accepted == 0 {
            let place = file.map_or_else(|| "the system".to_owned(), |path| path.display().to_string());
            return Err(Error::Unsuitable(format!(
                "{place} has no certificate of an authority to verify PostgreSQL with; set sslrootcert in the address to \
                 a PEM file"
            )));
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone()).build().map_err(
                |error| Error::Unsuitable(format!("cannot verify certificates of PostgreSQL: {error}")),
            )?;
        Ok(Chain { verifier, trusted })
    }

    /// Verifies the chain, and the name last.
    fn verify(
        &self,
        server: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), TlsError> {
        if self.trusted.iter().any(|trusted| trusted == server) {
            return rustls::client::verify_server_name(&ParsedCertificate::try_from(server)?, name);
        }
        self.verifier.verify_server_cert(server, others, name, &[], now).map(|_| ())
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let refused = |reason: &dyn std::fmt::Display| {
        Error::Unsuitable(format!(
            "cannot read the certificates in {} (sslrootcert): {reason}",
            path.display()
        ))
    };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| refused(&error))?;
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(|error| refused(&error))?;
    if certificates.is_empty() {
        return Err(refused(&"the file has no PEM certificate"));
    }
    Ok(certificates)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify(server, others, name, now) {
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.is_name_checked => {}
            verified => verified?,
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for Connector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type TlsConnect = HostConnector;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<HostConnector, Self::Error> {
        // tokio-postgres passes no name for a socket, and makes no TLS connection over one.
        let domain = if domain.is_empty() { "localhost" } else { domain };
        let name = ServerName::try_from(domain)?.to_owned();
        Ok(HostConnector { config: self.0.clone(), name })
    }
}

/// Makes TLS connections to one host.
pub(crate) struct HostConnector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for HostConnector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connecting = tokio_rustls::TlsConnector::from(self.config).connect(self.name, stream);
        Box::pin(async { Ok(EncryptedStream(connecting.await?)) })
    }
}

/// An encrypted connection.
pub(crate) struct EncryptedStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    /// Passwords are not bound to the connection. `verify-full` protects them from another server.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

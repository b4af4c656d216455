//! An HTTP client for the API.
//!
//! `callers` and `runners` implement the two traits of the API, one request per method; `stream` reads server-sent events.

mod callers;
mod runners;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slipform_types::env;

use crate::error::{Code, Error, ErrorBody};
use stream::EventStream;

/// Time limit for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for a response, in addition to the requested wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The address and token of a coordinator.
#[derive(Clone)]
pub struct Connection {
    /// Base URL, such as `http://127.0.0.1:8765`.
    pub url: String,
    /// API token, sent as a bearer token.
    pub token: Option<String>,
}

/// Hides the token.
impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        formatter.debug_struct("Connection").field("url", &self.url).field("token", &token).finish()
    }
}

/// Calls a coordinator over HTTP.
#[derive(Clone)]
pub struct Client {
    base: Url,
    token: Option<TokenSource>,
    named_by: Option<&'static str>,
    http: reqwest::Client,
}

/// Returns the token for a request, or `None` to send the request without one.
pub type TokenSource = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Hides the token.
impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client without connecting.
    ///
    /// # Errors
    /// Returns `InvalidRequest` if the URL is not an HTTP or HTTPS URL.
    pub fn new(connection: &Connection) -> Result<Client, Error> {
        let invalid = |reason: String| {
            let message = format!("invalid coordinator URL `{}`: {reason}", shown_url(&connection.url));
            Error::new(Code::InvalidRequest, message)
        };
        let mut text = connection.url.trim().trim_end_matches('/').to_owned();
        text.push('/');
        let base = Url::parse(&text).map_err(|error| invalid(format!("{error}; use http://HOST:PORT")))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(invalid("use http://HOST:PORT or https://HOST:PORT".to_owned()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(invalid(
                "remove the user name and password before the host; coordinators accept tokens".to_owned(),
            ));
        }
        // Fails if a provider is already installed, which works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = http_client().build().map_err(|error| invalid(error.to_string()))?;
        let token =
            connection.token.clone().map(|token| -> TokenSource { Arc::new(move || Some(token.clone())) });
        Ok(Client { base, token, named_by: None, http })
    }

    /// Trusts the certificates of these authorities (PEM), in addition to those of the system.
    ///
    /// # Errors
    /// Returns `InvalidRequest` if the text has no certificate.
    pub fn with_authorities(self, pem: &[u8]) -> Result<Client, Error> {
        let invalid = |reason: String| Error::new(Code::InvalidRequest, reason);
        let authorities =
            reqwest::Certificate::from_pem_bundle(pem).map_err(|error| invalid(error.to_string()))?;
        if authorities.is_empty() {
            return Err(invalid("no PEM certificate found".to_owned()));
        }
        let builder = http_client().tls_certs_merge(authorities);
        let http = builder.build().map_err(|error| invalid(root_cause(&error)))?;
        Ok(Client { http, ..self })
    }

    /// Names the environment variable that set the URL in "cannot reach" errors, because users forget that it
    /// is set.
    #[must_use]
    pub fn named_by(self, variable: &'static str) -> Client {
        Client { named_by: Some(variable), ..self }
    }

    /// Looks up the token before every request: the server may have ended, and another program may listen at its address.
    #[must_use]
    pub fn with_token_source(self, source: TokenSource) -> Client {
        Client { token: Some(source), ..self }
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.base.scheme() == "https"
    }

    /// Returns the host and port of the URL.
    pub fn host_and_port(&self) -> Option<(&str, u16)> {
        Some((self.base.host_str()?, self.base.port_or_known_default()?))
    }

    /// Returns the URL without a trailing slash.
    pub fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Sends a GET request.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.send(self.request(Method::GET, path)?, ANSWER_TIMEOUT).await
    }

    /// Sends a POST request with a JSON body.
    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.send(self.request(Method::POST, path)?.json_body(body), ANSWER_TIMEOUT).await
    }

    /// Sends a POST request with further headers.
    async fn post_with_headers<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        headers: &[(&str, Option<&str>)],
    ) -> Result<T, Error> {
        let mut request = self.request(Method::POST, path)?.json_body(body);
        for (name, value) in headers {
            if let Some(value) = *value {
                request = request.header(*name, value);
            }
        }
        self.send(request, ANSWER_TIMEOUT).await
    }

    /// Sends a POST request and allows `wait` in addition to the usual response time.
    async fn post_and_wait<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<T, Error> {
        self.send(self.request(Method::POST, path)?.json_body(body), ANSWER_TIMEOUT + wait).await
    }

    /// Sends a PATCH request with a JSON body.
    async fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.send(self.request(Method::PATCH, path)?.json_body(body), ANSWER_TIMEOUT).await
    }

    /// Sends a DELETE request.
    async fn delete(&self, path: &str) -> Result<(), Error> {
        self.send::<Value>(self.request(Method::DELETE, path)?, ANSWER_TIMEOUT).await.map(|_| ())
    }

    /// Opens a stream of server-sent events.
    async fn stream(&self, path: &str) -> Result<EventStream, Error> {
        let request = self.request(Method::GET, path)?.header("accept", "text/event-stream");
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            Ok(EventStream::new(response))
        } else {
            Err(error_of(response).await)
        }
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, Error> {
        let url = self.base.join(path.trim_start_matches('/')).map_err(|error| {
            Error::new(Code::InvalidRequest, format!("invalid API path `{path}`: {error}"))
        })?;
        let request = self.http.request(method, url);
        Ok(match self.token.as_ref().and_then(|token| token()) {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder, limit: Duration) -> Result<T, Error> {
        let response = request.timeout(limit).send().await.map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            return Err(error_of(response).await);
        }
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        let bytes: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(bytes).map_err(|error| {
            let message =
                format!("cannot parse the response of the coordinator at {}: {error}", self.address());
            Error::new(Code::Internal, message)
        })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Error {
        let reason = root_cause(error);
        let mut message = format!("cannot reach the coordinator at {}: {reason}", self.address());
        if reason.contains("UnknownIssuer") {
            message.push_str(&format!(
                "; set {} to the PEM file with the certificate of the authority that issued the server's",
                env::SLIPFORM_CA
            ));
        } else if reason.contains("InvalidContentType") {
            message.push_str("; the server does not use TLS: write http:// instead of https://");
        }
        if let Some(variable) = self.named_by {
            message.push_str(&format!("; the URL comes from {variable}"));
        }
        Error::new(Code::Unavailable, message)
    }
}

fn http_client() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
}

/// Returns the innermost message of an error. The others only repeat the request.
fn root_cause(error: &reqwest::Error) -> String {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        reason = cause.to_string();
        source = cause.source();
    }
    reason
}

/// Returns a URL for messages, without the user name and password before the host.
pub fn shown_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // A password may contain a slash, so the last `@` counts, wherever it is.
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

trait JsonBody {
    fn json_body(self, body: &impl Serialize) -> RequestBuilder;
}

impl JsonBody for RequestBuilder {
    fn json_body(self, body: &impl Serialize) -> RequestBuilder {
        // Bodies are types of this crate, and all of them serialize.
        let text = serde_json::to_vec(body).unwrap_or_default();
        self.header("content-type", "application/json").body(text)
    }
}

/// Converts an error response.
async fn error_of(response: reqwest::Response) -> Error {
    let status = response.status().as_u16();
    let bytes = response.bytes().await.unwrap_or_default();
    match serde_json::from_slice::<ErrorBody>(&bytes) {
        Ok(body) => body.into(),
        Err(_) => {
            let code = if status >= 500 { Code::Unavailable } else { Code::InvalidRequest };
            let text: String = String::from_utf8_lossy(&bytes).chars().take(200).collect();
            Error::new(code, format!("HTTP {status} from a server that is not a coordinator: {text}"))
        }
    }
}

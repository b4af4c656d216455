//! Streamable HTTP transport: rmcp's client on top of an HTTP client that limits response sizes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::{BoxedSseResponse, ExponentialBackoff};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::SseStream;

use super::Limits;
use super::diagnostics::Diagnostics;
use crate::Error;

/// Time limit for opening a connection. After it the server counts as unreachable.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Maximum number of times an interrupted stream is resumed, if the server supports it. Then the call fails.
const RESUMES_MAX: usize = 3;

/// Maximum length of an error page in a message.
const PAGE_CHARACTERS_SHOWN: usize = 200;

/// Maximum number of bytes read from an error page.
const PAGE_BYTES_MAX: usize = 64 * 1024;

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Parses a server's URL. Only `http` and `https` are supported.
pub(crate) fn parse_url(server: &str, url: &str) -> Result<Url, Error> {
    let failed = |reason: String| Error::Server { server: server.to_owned(), reason };
    let url = Url::parse(url)
        .map_err(|_| failed("has an invalid URL; write it as http://HOST:PORT/PATH".to_owned()))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(failed(format!("has an address of the kind '{other}'; there are http and https"))),
    }
}

/// Creates the transport to a server's URL.
pub(crate) fn transport(
    server: &str,
    url: &Url,
    diagnostics: Arc<Diagnostics>,
    limits: Limits,
) -> Result<StreamableHttpClientTransport<HttpClient>, Error> {
    // Fails if another part of the process has already installed the provider, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_MAX)
        .tcp_nodelay(true)
        .user_agent(concat!("slipform/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| Error::Server {
            server: server.to_owned(),
            reason: format!("cannot be reached: {}", root_cause(&error)),
        })?;
    let http_client = HttpClient {
        client,
        server: server.into(),
        shown_url: redacted_url(url).into(),
        diagnostics,
        bytes_max: limits.message_bytes_max,
    };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    let mut resumes = ExponentialBackoff::default();
    resumes.max_times = Some(RESUMES_MAX);
    config.retry_config = Arc::new(resumes);
    Ok(StreamableHttpClientTransport::with_client(http_client, config))
}

/// Returns the URL without credentials and query, for messages.
fn redacted_url(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

/// The HTTP client that rmcp sends its messages with.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient {
    client: Client,
    server: Arc<str>,
    /// The URL without secrets, for messages.
    shown_url: Arc<str>,
    diagnostics: Arc<Diagnostics>,
    bytes_max: usize,
}

type Failure = StreamableHttpError<Error>;

impl HttpClient {
    fn failed(&self, reason: String) -> Failure {
        StreamableHttpError::Client(Error::Server { server: self.server.to_string(), reason })
    }

    async fn send(
        &self,
        request: RequestBuilder,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Failure> {
        let mut request = request
            .header(ACCEPT, format!("{JSON}, {EVENTS}"))
            .headers(headers.into_iter().collect::<HeaderMap>());
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        request.send().await.map_err(|error| {
            self.failed(format!("cannot be reached at {}: {}", self.shown_url, root_cause(&error)))
        })
    }

    /// Returns the response's event stream, limited in total size. Exceeding the limit is recorded in
    /// `diagnostics`.
    fn events(&self, response: Response) -> BoxedSseResponse {
        let diagnostics = self.diagnostics.clone();
        let body = Limited::new(reqwest::Body::from(response), self.bytes_max).map_err(move |error| {
            if error.is::<LengthLimitError>() {
                diagnostics.record_oversized();
            }
            std::io::Error::other(error)
        });
        Box::pin(SseStream::new(body))
    }

    /// Reads the response's body as one message, up to the size limit.
    async fn message(&self, response: Response) -> Result<ServerJsonRpcMessage, Failure> {
        let body = self.body(response, self.bytes_max).await?;
        if body.len() > self.bytes_max {
            self.diagnostics.record_oversized();
            return Err(self.failed(format!("sent a message longer than {} bytes", self.bytes_max)));
        }
        serde_json::from_slice(&body).map_err(|_| {
            self.failed(format!("answered with something that is no message of MCP: {}", excerpt(&body)))
        })
    }

    /// Reads the body until it ends or exceeds `bytes_max`.
    async fn body(&self, mut response: Response, bytes_max: usize) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        let broken = |error| self.failed(format!("broke off its answer: {}", root_cause(&error)));
        while body.len() <= bytes_max
            && let Some(chunk) = response.chunk().await.map_err(broken)?
        {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Converts a response without a success status. A JSON-RPC error in its body is returned as a message.
    async fn error_response(
        &self,
        response: Response,
        in_session: bool,
    ) -> Result<ServerJsonRpcMessage, Failure> {
        let status = response.status();
        if status.is_redirection() {
            let location = header(&response, &LOCATION);
            return Err(
                self.failed(format!("redirects to '{location}'; put the final address into the blueprint"))
            );
        }
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let body = self.body(response, PAGE_BYTES_MAX).await.unwrap_or_default();
        let is_unauthorized = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !is_unauthorized
            && let Ok(message @ ServerJsonRpcMessage::Error(_)) = serde_json::from_slice(&body)
        {
            return Ok(message);
        }
        Err(self.failed(format!("answered {status} at {}: {}", self.shown_url, excerpt(&body))))
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = serde_json::to_vec(&message).map_err(StreamableHttpError::Deserialize)?;
        let request = self.client.post(&*uri).header(CONTENT_TYPE, JSON).body(body);
        let response = self.send(request, session_id.as_deref(), custom_headers).await?;
        let expects_response = matches!(message, ClientJsonRpcMessage::Request(_));
        let session =
            response.headers().get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        if !response.status().is_success() {
            let message = self.error_response(response, session_id.is_some()).await?;
            return Ok(StreamableHttpPostResponse::Json(message, session));
        }
        let is_empty = matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT)
            || response.headers().get(CONTENT_LENGTH).is_some_and(|length| length == "0");
        if is_empty || !expects_response {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let content_type = header(&response, &CONTENT_TYPE).to_ascii_lowercase();
        if content_type.starts_with(EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        if content_type.starts_with(JSON) {
            return Ok(StreamableHttpPostResponse::Json(self.message(response).await?, session));
        }
        let body = self.body(response, PAGE_BYTES_MAX).await.unwrap_or_default();
        let kind = if content_type.is_empty() { "something without a type" } else { &content_type };
        let excerpt = excerpt(&body);
        Err(self.failed(format!("answered with {kind} instead of MCP at {}: {excerpt}", self.shown_url)))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        // The server may refuse to delete its session; the client has nothing left to do.
        self.send(self.client.delete(&*uri), Some(&session_id), custom_headers).await.map(|_| ())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, Failure> {
        // Resume interrupted responses only; the server's own notifications are not needed.
        let Some(last_event) = last_event_id else {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        };
        let request = self.client.get(&*uri).header(LAST_EVENT, last_event);
        // This error tells rmcp not to retry. An unreachable server has most likely lost the session too.
        match self.send(request, session_id.as_deref(), custom_headers).await {
            Ok(response) if response.status().is_success() => Ok(self.events(response)),
            _ => Err(StreamableHttpError::ServerDoesNotSupportSse),
        }
    }
}

fn header(response: &Response, name: &HeaderName) -> String {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// Returns the start of a page, on one line.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(PAGE_CHARACTERS_SHOWN).collect()
}

/// Returns the innermost source of an error, which names the actual cause.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

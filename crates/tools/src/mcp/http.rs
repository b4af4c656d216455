//! MCP over HTTP: the protocol's client on our own connection, which bounds what it reads.

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
use super::heard::Heard;
use crate::Error;

/// How long opening a connection may take; over it the server counts as down.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How often a stream that broke off is resumed, where the server can do that; after it the call has failed.
const RESUMES_MAX: usize = 3;

/// How much of an error page is shown: enough to recognise it.
const PAGE_CHARACTERS_SHOWN: usize = 200;

/// How much of an error page is read; the rest says nothing more.
const PAGE_BYTES_MAX: usize = 64 * 1024;

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// A server's address, if it is one.
pub(crate) fn address(server: &str, address: &str) -> Result<Url, Error> {
    let failed = |reason: String| Error::Server { server: server.to_owned(), reason };
    let url = Url::parse(address).map_err(|error| failed(format!("has an address that is none: {error}")))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(failed(format!("has an address of the kind '{other}'; there are http and https"))),
    }
}

/// The connection to a server's address.
pub(crate) fn transport(
    server: &str,
    url: &Url,
    heard: Arc<Heard>,
    limits: Limits,
) -> Result<StreamableHttpClientTransport<Caller>, Error> {
    // Several parts of one process may come by here; the first one decides and the rest agree.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_MAX)
        .tcp_nodelay(true)
        .user_agent(concat!("slipform/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| Error::Server {
            server: server.to_owned(),
            reason: format!("cannot be reached: {}", cause(&error)),
        })?;
    let caller = Caller {
        client,
        server: server.into(),
        shown: shown(url).into(),
        heard,
        bytes_max: limits.message_bytes_max,
    };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    let mut resumes = ExponentialBackoff::default();
    resumes.max_times = Some(RESUMES_MAX);
    config.retry_config = Arc::new(resumes);
    Ok(StreamableHttpClientTransport::with_client(caller, config))
}

/// An address without what may be secret in it.
fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

/// Sends messages and reads answers.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    client: Client,
    server: Arc<str>,
    /// The address, for messages.
    shown: Arc<str>,
    heard: Arc<Heard>,
    bytes_max: usize,
}

type Failure = StreamableHttpError<Error>;

impl Caller {
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
        request
            .send()
            .await
            .map_err(|error| self.failed(format!("cannot be reached at {}: {}", self.shown, cause(&error))))
    }

    /// The events of an answer, which all together have a bound. Whoever waits is told when it is passed.
    fn events(&self, response: Response) -> BoxedSseResponse {
        let heard = self.heard.clone();
        let body = Limited::new(reqwest::Body::from(response), self.bytes_max).map_err(move |error| {
            if error.is::<LengthLimitError>() {
                heard.oversized();
            }
            std::io::Error::other(error)
        });
        Box::pin(SseStream::new(body))
    }

    /// The body as a message, read up to the bound.
    async fn message(&self, response: Response) -> Result<ServerJsonRpcMessage, Failure> {
        let body = self.body(response, self.bytes_max).await?;
        if body.len() > self.bytes_max {
            self.heard.oversized();
            return Err(self.failed(format!("sent a message longer than {} bytes", self.bytes_max)));
        }
        serde_json::from_slice(&body).map_err(|_| {
            self.failed(format!("answered with something that is no message of MCP: {}", start(&body)))
        })
    }

    /// The body, or as much of it as passes the bound.
    async fn body(&self, mut response: Response, bytes_max: usize) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        let broken = |error| self.failed(format!("broke off its answer: {}", cause(&error)));
        while body.len() <= bytes_max
            && let Some(chunk) = response.chunk().await.map_err(broken)?
        {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// What an answer that is no success means. A server's own words of a request come as a message all the
    /// same.
    async fn refused(&self, response: Response, in_session: bool) -> Result<ServerJsonRpcMessage, Failure> {
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
        let unauthorized = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !unauthorized && let Ok(message @ ServerJsonRpcMessage::Error(_)) = serde_json::from_slice(&body) {
            return Ok(message);
        }
        Err(self.failed(format!("answered {status} at {}: {}", self.shown, start(&body))))
    }
}

impl StreamableHttpClient for Caller {
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
        let wants_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        let session =
            response.headers().get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        if !response.status().is_success() {
            let message = self.refused(response, session_id.is_some()).await?;
            return Ok(StreamableHttpPostResponse::Json(message, session));
        }
        let empty = matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT)
            || response.headers().get(CONTENT_LENGTH).is_some_and(|length| length == "0");
        if empty || !wants_answer {
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
        let start = start(&body);
        Err(self.failed(format!("answered with {kind} instead of MCP at {}: {start}", self.shown)))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        // A server may keep its sessions to itself; there is nothing to be done about it.
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
        // Only the rest of an answer is of interest, not what a server has to say on its own.
        let Some(last_event) = last_event_id else {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        };
        let request = self.client.get(&*uri).header(LAST_EVENT, last_event);
        // This error means: do not try again. A server that cannot be reached has most likely lost the
        // session too.
        match self.send(request, session_id.as_deref(), custom_headers).await {
            Ok(response) if response.status().is_success() => Ok(self.events(response)),
            _ => Err(StreamableHttpError::ServerDoesNotSupportSse),
        }
    }
}

fn header(response: &Response, name: &HeaderName) -> String {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// The start of a page, on one line.
fn start(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(PAGE_CHARACTERS_SHOWN).collect()
}

/// What is at the bottom of an error: the layers above it only say that something went wrong.
fn cause(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

//! HTTP transport of the backends: concurrency limit, timeouts, retries, streaming and size limits.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode, Url};
use slipform_types::Reply;
use tokio::time::{Instant, timeout, timeout_at};

use crate::Call;
use crate::config::BackendConfig;
use crate::error::Error;
use crate::error_text::{blames_request, cause, on_one_line, server_message};
use crate::estimate;
use crate::retry::{Retry, retry_after};
use crate::secret::Secret;
use crate::slots::CallSlots;
use crate::sse::{Event, Events};
use crate::stream_watch::StreamWatch;

/// The largest reply that is kept. The longest answers of current models are a tenth of it.
const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The largest stream that is read. One token takes about 300 bytes, so the longest answers take 40 MB, of
/// which the reply keeps a hundredth.
const STREAM_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most bytes of an error body that are read.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// The longest wait for the end of a response after its end marker.
const END_TIME_MAX: Duration = Duration::from_millis(100);

/// The header with which a request belongs to a trace.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Assembles a reply from the messages of one protocol.
pub(crate) trait Assemble: Default {
    /// Adds one event of a stream.
    fn event(&mut self, event: &Event<'_>) -> Result<(), Error>;
    /// Parses a response that is not a stream.
    fn full_body(&mut self, body: &[u8]) -> Result<(), Error>;
    /// Returns the approximate number of tokens received so far.
    fn tokens(&self) -> u64;
    /// Returns the partial reply.
    fn reply(&self) -> &Reply;
    /// Returns whether the stop reason was received. Only the usage may follow.
    fn is_complete(&self) -> bool;
    /// Returns whether the protocol's end marker was received.
    fn is_done(&self) -> bool;
    /// Returns the reply, or an error if a required part is missing.
    fn finish(self) -> Result<Reply, Error>;
}

/// The address of requests, parsed once. One that is no URL is reported by the first request.
#[derive(Debug)]
pub(crate) struct Address {
    text: String,
    parsed: Option<Url>,
}

impl From<String> for Address {
    fn from(text: String) -> Address {
        Address { parsed: text.parse().ok(), text }
    }
}

/// A serialized request.
#[derive(Clone, Copy)]
pub(crate) struct Post<'a> {
    pub(crate) url: &'a Address,
    pub(crate) body: &'a [u8],
    /// The source of `body`.
    pub(crate) call: Call<'a>,
}

/// The HTTP client of one backend, with its key, timeouts and limits.
#[derive(Debug)]
pub(crate) struct Http {
    client: reqwest::Client,
    secret: Secret,
    total: Duration,
    connect: Duration,
    idle: Duration,
    retry: Retry,
    slots: CallSlots,
}

impl Http {
    pub(crate) fn new(config: &BackendConfig, secret: Secret, headers: HeaderMap) -> Result<Http, Error> {
        // Fails if another part of the process has already installed a provider, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(config.connect())
            .tcp_nodelay(true)
            .user_agent(concat!("slipform/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::Settings(format!("cannot set up the connection: {}", cause(&error))))?;
        Ok(Http {
            client,
            secret,
            total: config.total(),
            connect: config.connect(),
            idle: config.idle(),
            retry: Retry::new(config.retries, Duration::from_secs_f64(config.retry_base_seconds)),
            slots: CallSlots::new(config.max_concurrency),
        })
    }

    /// Posts a request and assembles the reply. Retries transient errors with backoff.
    ///
    /// `timeout_seconds` limits each attempt, and no attempt starts after it. A call therefore takes at most
    /// twice as long.
    pub(crate) async fn call<A: Assemble>(&self, post: Post<'_>) -> Result<Reply, Error> {
        let patience = post.call.patience;
        let _slot = self.slots.acquire(patience).await?;
        let start = Instant::now();
        let mut retries = 0;
        loop {
            let error = match self.attempt::<A>(post).await {
                Ok(mut reply) => {
                    self.retry.succeeded();
                    estimate::fill_usage(&mut reply, post.call.request);
                    return Ok(self.secret.redact_reply(reply));
                }
                Err(error) => error.redacted(&self.secret),
            };
            if !error.is_transient() {
                return Err(error);
            }
            retries += 1;
            let requested = match &error {
                Error::Busy { retry_after, .. } => *retry_after,
                _ => None,
            };
            let left = patience.left(self.total.saturating_sub(start.elapsed()));
            let left = patience.wait_max.map_or(left, |longest| left.min(longest));
            match self.retry.wait(retries, requested, left) {
                Some(wait) => {
                    post.call.watch.waiting(wait, &error);
                    tokio::time::sleep(wait).await;
                }
                None => return Err(error),
            }
        }
    }

    /// Sends a GET request, without retries, and parses the response as JSON.
    pub(crate) async fn get(&self, url: &str) -> Result<serde_json::Value, Error> {
        let deadline = Instant::now() + self.total.min(self.connect * 2);
        let response = self.with_deadline(deadline, self.client.get(url).send()).await?;
        let response = response.map_err(|error| self.network_error(url, &error))?;
        let response =
            self.check_status(deadline, response).await.map_err(|error| error.redacted(&self.secret))?;
        let body = self.body(deadline, response, ERROR_BYTES_MAX * 16).await?;
        serde_json::from_slice(&body)
            .map_err(|error| Error::Incomplete { reason: format!("not JSON: {error}") })
    }

    async fn attempt<A: Assemble>(&self, post: Post<'_>) -> Result<Reply, Error> {
        let deadline = Instant::now() + self.total;
        let request = match &post.url.parsed {
            Some(url) => self.client.post(url.clone()),
            None => self.client.post(&post.url.text),
        };
        let mut request = request
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(post.body.to_vec());
        if let Some(parent) = post.call.trace_parent {
            request = request.header(TRACE_PARENT, parent.as_str());
        }
        let response = self.with_deadline(deadline, request.send()).await?;
        let response = response.map_err(|error| self.network_error(&post.url.text, &error))?;
        let response = self.check_status(deadline, response).await?;
        let content_type = header(response.headers(), &CONTENT_TYPE).to_owned();
        let lowercase_type = content_type.to_ascii_lowercase();
        if lowercase_type.starts_with("text/event-stream") {
            return self.read_stream::<A>(post, deadline, response).await;
        }
        let body = self.body(deadline, response, REPLY_BYTES_MAX).await?;
        if lowercase_type.contains("json") || content_type.is_empty() && body.starts_with(b"{") {
            let mut reply = A::default();
            reply.full_body(&body)?;
            return reply.finish();
        }
        if content_type.is_empty() && (body.starts_with(b"data:") || body.starts_with(b"event:")) {
            return assemble_stream::<A>(&body);
        }
        // The original case is kept: redaction would not recognize a key in lower case.
        Err(Error::ContentType { content_type, start: on_one_line(&String::from_utf8_lossy(&body)) })
    }

    async fn read_stream<A: Assemble>(
        &self,
        post: Post<'_>,
        deadline: Instant,
        mut response: Response,
    ) -> Result<Reply, Error> {
        let mut reply = A::default();
        let mut events = Events::default();
        let mut stream_watch = StreamWatch::new(&self.secret, post.call.watch);
        let mut read = 0;
        // Some servers keep the connection open after the end marker.
        while !reply.is_done() {
            let chunk = match self.next_chunk(&post.url.text, deadline, read > 0, &mut response).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // The reply is complete; only the usage or the end marker is missing.
                Err(_) if reply.is_complete() => break,
                Err(error) => return Err(error),
            };
            read += chunk.len();
            if read > STREAM_BYTES_MAX {
                return Err(Error::TooLarge { limit: STREAM_BYTES_MAX });
            }
            events.feed(&chunk, |event| reply.event(&event))?;
            if estimate::written_bytes(reply.reply()) > REPLY_BYTES_MAX {
                return Err(Error::TooLarge { limit: REPLY_BYTES_MAX });
            }
            post.call.watch.tokens(reply.tokens());
            stream_watch.report(reply.reply());
        }
        events.finish(|event| reply.event(&event))?;
        if reply.is_done() {
            // A connection is used again only if its response was read to the end, which may follow the end marker.
            tokio::spawn(timeout(
                END_TIME_MAX,
                async move { while let Ok(Some(_)) = response.chunk().await {} },
            ));
        }
        reply.finish()
    }

    /// Reads the next chunk of a body; `None` at its end.
    ///
    /// The idle timeout applies only after the first chunk, because prompt evaluation may take longer.
    async fn next_chunk(
        &self,
        url: &str,
        deadline: Instant,
        has_begun: bool,
        response: &mut Response,
    ) -> Result<Option<impl std::ops::Deref<Target = [u8]>>, Error> {
        let idle = if has_begun { self.idle } else { self.total };
        match timeout(idle, self.with_deadline(deadline, response.chunk())).await {
            Ok(Ok(Ok(chunk))) => Ok(chunk),
            Ok(Ok(Err(error))) if error.is_body() || error.is_decode() => {
                Err(Error::Incomplete { reason: format!("the connection was lost ({})", cause(&error)) })
            }
            Ok(Ok(Err(error))) => Err(self.network_error(url, &error)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::Timeout {
                what: "a pause within the reply",
                setting: "idle_timeout_seconds",
                limit: idle,
            }),
        }
    }

    async fn with_deadline<T>(&self, deadline: Instant, future: impl Future<Output = T>) -> Result<T, Error> {
        timeout_at(deadline, future).await.map_err(|_| Error::Timeout {
            what: "the call",
            setting: "timeout_seconds",
            limit: self.total,
        })
    }

    fn network_error(&self, url: &str, error: &reqwest::Error) -> Error {
        if error.is_timeout() {
            return Error::Timeout {
                what: "connecting",
                setting: "connect_timeout_seconds",
                limit: self.connect,
            };
        }
        Error::Unreachable { url: url.to_owned(), reason: cause(error) }
    }

    /// Returns the response if its status is a success, else the server's error.
    async fn check_status(&self, deadline: Instant, response: Response) -> Result<Response, Error> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status.is_redirection() {
            let location = header(response.headers(), &LOCATION).to_owned();
            return Err(Error::Redirected { status: status.as_u16(), location });
        }
        let wait = retry_after(header(response.headers(), &RETRY_AFTER), SystemTime::now());
        let body = self.error_body(deadline, response).await;
        let message = server_message(&body);
        let parsed: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        Err(match status {
            StatusCode::INTERNAL_SERVER_ERROR if blames_request(&parsed["error"]) => {
                Error::Rejected { status: status.as_u16(), message }
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Error::Busy { status: status.as_u16(), message, retry_after: wait }
            }
            // A server without a feature does not get it by waiting.
            status if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
                Error::Busy { status: status.as_u16(), message, retry_after: wait }
            }
            status => Error::Rejected { status: status.as_u16(), message },
        })
    }

    async fn body(&self, deadline: Instant, mut response: Response, limit: usize) -> Result<Vec<u8>, Error> {
        let url = response.url().to_string();
        let mut body =
            Vec::with_capacity(response.content_length().unwrap_or_default().min(64 * 1024) as usize);
        while let Some(chunk) = self.next_chunk(&url, deadline, !body.is_empty(), &mut response).await? {
            if body.len() + chunk.len() > limit {
                return Err(Error::TooLarge { limit });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Reads the start of an error body. Read errors are ignored, because the status is the error to report.
    async fn error_body(&self, deadline: Instant, mut response: Response) -> Vec<u8> {
        let url = response.url().to_string();
        let mut body = Vec::new();
        while body.len() < ERROR_BYTES_MAX
            && let Ok(Some(chunk)) = self.next_chunk(&url, deadline, true, &mut response).await
        {
            body.extend_from_slice(&chunk);
        }
        body.truncate(ERROR_BYTES_MAX);
        body
    }
}

/// Assembles an event stream that was received without a content type, as one body.
fn assemble_stream<A: Assemble>(body: &[u8]) -> Result<Reply, Error> {
    let mut reply = A::default();
    let mut events = Events::default();
    events.feed(body, |event| reply.event(&event))?;
    events.finish(|event| reply.event(&event))?;
    reply.finish()
}

fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

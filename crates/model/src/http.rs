//! One call over HTTP: send, wait, read the stream, and tell every way in which that can go wrong.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use slipform_types::{Reply, Request};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::Watch;
use crate::config::BackendConfig;
use crate::error::Error;
use crate::error_text::{blames_request, cause, on_one_line, server_message};
use crate::estimate;
use crate::retry::{Retry, retry_after};
use crate::secret::Secret;
use crate::sse::{Event, Events};
use crate::stream_watch::StreamWatch;

/// The largest reply that is kept. The longest answers of today's models are a tenth of it; what is
/// longer would only fill the memory.
const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The most bytes of a stream. A token's event takes some 300 bytes, so that the longest answers come to
/// 40 MB, of which the reply keeps a hundredth.
const STREAM_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most of an error's body that is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// Puts a reply together from what a protocol sends.
pub(crate) trait Assemble: Default {
    /// Takes one event of the stream.
    fn event(&mut self, event: &Event<'_>) -> Result<(), Error>;
    /// Takes a reply that came whole.
    fn whole(&mut self, body: &[u8]) -> Result<(), Error>;
    /// How many tokens have come so far, roughly.
    fn tokens(&self) -> u64;
    /// What has come so far.
    fn reply(&self) -> &Reply;
    /// Whether the model has said why it ended: what may follow is the count of tokens.
    fn is_complete(&self) -> bool;
    /// Whether the server has said that nothing follows.
    fn is_done(&self) -> bool;
    /// The reply, or what is missing from it.
    fn finish(self) -> Result<Reply, Error>;
}

/// A request on its way to a model.
#[derive(Clone, Copy)]
pub(crate) struct Post<'a> {
    pub(crate) url: &'a str,
    pub(crate) body: &'a [u8],
    /// What is asked, for servers that do not count what it takes.
    pub(crate) request: &'a Request,
    pub(crate) watch: &'a dyn Watch,
}

/// An HTTP backend's connection: client, limits, key.
#[derive(Debug)]
pub(crate) struct Http {
    client: reqwest::Client,
    secret: Secret,
    total: Duration,
    connect: Duration,
    idle: Duration,
    retry: Retry,
    slots: Semaphore,
}

impl Http {
    pub(crate) fn new(config: &BackendConfig, secret: Secret, headers: HeaderMap) -> Result<Http, Error> {
        // Several parts of one process may come by here; the first one decides and the rest agree.
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
            slots: Semaphore::new(config.max_concurrency),
        })
    }

    /// Posts a request and assembles the reply, asking again while that may help. `timeout_seconds` bounds
    /// each try, and no try begins after it, so that a call takes at most twice as long whatever happens.
    pub(crate) async fn call<A: Assemble>(&self, post: Post<'_>) -> Result<Reply, Error> {
        let _slot =
            self.slots.acquire().await.map_err(|_| Error::Settings("the backend was closed".to_owned()))?;
        let begun = Instant::now();
        let mut again = 0;
        loop {
            let error = match self.once::<A>(post).await {
                Ok(mut reply) => {
                    self.retry.succeeded();
                    estimate::fill(&mut reply, post.request);
                    return Ok(self.secret.redact_reply(reply));
                }
                Err(error) => error.redacted(&self.secret),
            };
            if !error.is_passing() {
                return Err(error);
            }
            again += 1;
            let asked_for = match &error {
                Error::Busy { retry_after, .. } => *retry_after,
                _ => None,
            };
            let left = self.total.saturating_sub(begun.elapsed());
            match self.retry.wait(again, asked_for, left) {
                Some(wait) => {
                    post.watch.waiting(wait, &error);
                    tokio::time::sleep(wait).await;
                }
                None => return Err(error),
            }
        }
    }

    /// A plain GET whose answer is JSON, for what servers tell about themselves.
    pub(crate) async fn get(&self, url: &str) -> Result<serde_json::Value, Error> {
        let deadline = Instant::now() + self.total.min(self.connect * 2);
        let response =
            self.bounded(deadline, self.client.get(url).send()).await?.map_err(|e| self.network(url, &e))?;
        let response =
            self.accepted(deadline, response).await.map_err(|error| error.redacted(&self.secret))?;
        let body = self.body(deadline, response, ERROR_BYTES_MAX * 16).await?;
        serde_json::from_slice(&body)
            .map_err(|error| Error::Incomplete { reason: format!("not JSON: {error}") })
    }

    async fn once<A: Assemble>(&self, post: Post<'_>) -> Result<Reply, Error> {
        let deadline = Instant::now() + self.total;
        let request = self
            .client
            .post(post.url)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(post.body.to_vec());
        let response =
            self.bounded(deadline, request.send()).await?.map_err(|error| self.network(post.url, &error))?;
        let response = self.accepted(deadline, response).await?;
        let said = header(response.headers(), &CONTENT_TYPE).to_owned();
        let content_type = said.to_ascii_lowercase();
        if content_type.starts_with("text/event-stream") {
            return self.read_stream::<A>(post, deadline, response).await;
        }
        let body = self.body(deadline, response, REPLY_BYTES_MAX).await?;
        if content_type.contains("json") || content_type.is_empty() && body.starts_with(b"{") {
            let mut reply = A::default();
            reply.whole(&body)?;
            return reply.finish();
        }
        if content_type.is_empty() && (body.starts_with(b"data:") || body.starts_with(b"event:")) {
            return whole_stream::<A>(&body);
        }
        // As it was sent: a key in it is found only if its case is kept.
        Err(Error::ContentType { content_type: said, start: on_one_line(&String::from_utf8_lossy(&body)) })
    }

    async fn read_stream<A: Assemble>(
        &self,
        post: Post<'_>,
        deadline: Instant,
        mut response: Response,
    ) -> Result<Reply, Error> {
        let mut reply = A::default();
        let mut events = Events::default();
        let mut stream_watch = StreamWatch::new(&self.secret, post.watch);
        let mut read = 0;
        // Some servers keep the connection open when all is said.
        while !reply.is_done() {
            let chunk = match self.next_chunk(post.url, deadline, read > 0, &mut response).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // What is lost is the end of the stream, not of the reply.
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
            post.watch.tokens(reply.tokens());
            stream_watch.tell(reply.reply());
        }
        events.finish(|event| reply.event(&event))?;
        reply.finish()
    }

    /// The next bytes. Before the first ones the model may still be reading its prompt, so that only the
    /// total bound applies; after that silence means that it is stuck.
    async fn next_chunk(
        &self,
        url: &str,
        deadline: Instant,
        begun: bool,
        response: &mut Response,
    ) -> Result<Option<impl std::ops::Deref<Target = [u8]>>, Error> {
        let idle = if begun { self.idle } else { self.total };
        match timeout(idle, self.bounded(deadline, response.chunk())).await {
            Ok(Ok(Ok(chunk))) => Ok(chunk),
            Ok(Ok(Err(error))) if error.is_body() || error.is_decode() => {
                Err(Error::Incomplete { reason: format!("the connection broke off ({})", cause(&error)) })
            }
            Ok(Ok(Err(error))) => Err(self.network(url, &error)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::Timeout {
                what: "the silence in the middle of a reply",
                setting: "idle_timeout_seconds",
                limit: idle,
            }),
        }
    }

    async fn bounded<T>(&self, deadline: Instant, future: impl Future<Output = T>) -> Result<T, Error> {
        timeout_at(deadline, future).await.map_err(|_| Error::Timeout {
            what: "the call",
            setting: "timeout_seconds",
            limit: self.total,
        })
    }

    fn network(&self, url: &str, error: &reqwest::Error) -> Error {
        if error.is_timeout() {
            return Error::Timeout {
                what: "connecting",
                setting: "connect_timeout_seconds",
                limit: self.connect,
            };
        }
        Error::Unreachable { url: url.to_owned(), reason: cause(error) }
    }

    /// The response if its status is a success, else what the server said.
    async fn accepted(&self, deadline: Instant, response: Response) -> Result<Response, Error> {
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
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        Err(match status {
            StatusCode::INTERNAL_SERVER_ERROR if blames_request(&said["error"]) => {
                Error::Rejected { status: status.as_u16(), message }
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Error::Busy { status: status.as_u16(), message, retry_after: wait }
            }
            status if status.is_server_error() => {
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

    /// The start of an error's body; whatever goes wrong with it, the status is what counts.
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

fn whole_stream<A: Assemble>(body: &[u8]) -> Result<Reply, Error> {
    let mut reply = A::default();
    let mut events = Events::default();
    events.feed(body, |event| reply.event(&event))?;
    events.finish(|event| reply.event(&event))?;
    reply.finish()
}

fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

//! One call over HTTP: send, wait, read the stream, and tell every way in which that can go wrong.

use std::time::{Duration, SystemTime};

use formwork_types::Reply;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::Watch;
use crate::config::BackendConfig;
use crate::error::Error;
use crate::retry::{Retry, retry_after};
use crate::secret::Secret;
use crate::sse::{Event, Events};

/// The largest reply that is read. The longest answers of today's models are a tenth of it; what is
/// longer would only fill the memory.
pub(crate) const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The most of an error's body that is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// How long to wait for the end of a stream that has said all. Most servers send it at once, and then the connection
/// can be used again; some never send it, and the reply must not wait for them.
const END_WAIT_MAX: Duration = Duration::from_millis(250);

/// Puts a reply together from what a protocol sends.
pub(crate) trait Assemble: Default {
    /// Takes one event of the stream.
    fn event(&mut self, event: &Event<'_>) -> Result<(), Error>;
    /// Takes a reply that came whole.
    fn whole(&mut self, body: &[u8]) -> Result<(), Error>;
    /// Whether the protocol's own end has come, behind which nothing follows.
    fn is_done(&self) -> bool;
    /// How many tokens have come so far, roughly.
    fn tokens(&self) -> u64;
    /// The reply, or what is missing from it.
    fn finish(self) -> Result<Reply, Error>;
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
            .user_agent(concat!("formwork/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::Settings(format!("cannot set up the connection: {}", causes(&error))))?;
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

    /// Posts a request and assembles the reply, asking again while that may help.
    pub(crate) async fn call<A: Assemble>(
        &self,
        url: &str,
        body: &[u8],
        watch: &dyn Watch,
    ) -> Result<Reply, Error> {
        let _slot =
            self.slots.acquire().await.map_err(|_| Error::Settings("the backend was closed".to_owned()))?;
        let deadline = Instant::now() + self.total;
        let mut again = 0;
        loop {
            let error = match self.once::<A>(url, body, deadline, watch).await {
                Ok(reply) => {
                    self.retry.succeeded();
                    return Ok(self.secret.redact_reply(reply));
                }
                Err(error) => error.redacted(&self.secret),
            };
            again += 1;
            let asked_for = match &error {
                Error::Busy { retry_after, .. } => *retry_after,
                _ => None,
            };
            if !error.is_passing() {
                return Err(error);
            }
            // Where the wait alone would use up the call's time, the server's words say more than a timeout would.
            let wait = self.retry.wait(again, asked_for);
            let Some(wait) = wait.filter(|wait| Instant::now() + *wait < deadline) else {
                return Err(error);
            };
            watch.waiting(wait, &error);
            tokio::time::sleep(wait).await;
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

    async fn once<A: Assemble>(
        &self,
        url: &str,
        body: &[u8],
        deadline: Instant,
        watch: &dyn Watch,
    ) -> Result<Reply, Error> {
        let request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(body.to_vec());
        let response =
            self.bounded(deadline, request.send()).await?.map_err(|error| self.network(url, &error))?;
        let response = self.accepted(deadline, response).await?;
        let content_type = header(response.headers(), &CONTENT_TYPE).to_owned();
        let kind = content_type.to_ascii_lowercase();
        if kind.starts_with("text/event-stream") {
            return self.read_stream::<A>(url, deadline, response, watch).await;
        }
        let body = self.body(deadline, response, REPLY_BYTES_MAX).await?;
        if kind.contains("json") || content_type.is_empty() && body.starts_with(b"{") {
            let mut reply = A::default();
            reply.whole(&body)?;
            return reply.finish();
        }
        if content_type.is_empty() && (body.starts_with(b"data:") || body.starts_with(b"event:")) {
            return whole_stream::<A>(&body);
        }
        Err(Error::ContentType { content_type, start: String::from_utf8_lossy(&body).into_owned() })
    }

    async fn read_stream<A: Assemble>(
        &self,
        url: &str,
        deadline: Instant,
        mut response: Response,
        watch: &dyn Watch,
    ) -> Result<Reply, Error> {
        let mut reply = A::default();
        let mut events = Events::default();
        let mut read = 0;
        let mut begun = false;
        while let Some(chunk) = self.next_chunk(url, deadline, begun, &mut response).await? {
            begun = true;
            read += chunk.len();
            if read > REPLY_BYTES_MAX {
                return Err(Error::TooLarge { limit: REPLY_BYTES_MAX });
            }
            events.feed(&chunk, |event| reply.event(&event))?;
            watch.tokens(reply.tokens());
            if reply.is_done() {
                let _ = timeout(END_WAIT_MAX, response.chunk()).await;
                break;
            }
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
    ) -> Result<Option<impl std::ops::Deref<Target = [u8]> + use<>>, Error> {
        let idle = if begun { self.idle } else { self.total };
        match timeout(idle, self.bounded(deadline, response.chunk())).await {
            Ok(Ok(Ok(chunk))) => Ok(chunk),
            Ok(Ok(Err(error))) if error.is_body() || error.is_decode() => {
                Err(Error::Incomplete { reason: format!("the connection broke off ({})", causes(&error)) })
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
        Error::Unreachable { url: url.to_owned(), reason: causes(error) }
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
        let message = server_words(&body);
        Err(match status {
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
        while let Some(chunk) = self.next_chunk(&url, deadline, true, &mut response).await? {
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

/// The words of a server's error: its `error.message` where it has one, else the text. Where the server names the field
/// it complains of, the name is among the words.
pub(crate) fn server_words(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let parsed: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let said = parsed.as_ref().and_then(|value| {
        ["/error/message", "/message", "/detail", "/error"]
            .iter()
            .find_map(|pointer| value.pointer(pointer))
            .map(|found| found.as_str().map_or_else(|| found.to_string(), str::to_owned))
    });
    let words = said.unwrap_or_else(|| text.into_owned());
    let field = parsed.as_ref().and_then(|value| value.pointer("/error/param")?.as_str());
    match field.filter(|field| !words.contains(field)) {
        Some(field) => format!("{words} ({field})"),
        None if words.trim().is_empty() => "(no message)".to_owned(),
        None => words,
    }
}

/// An error and its causes on one line, without the address: the caller names it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    deepest.to_string()
}

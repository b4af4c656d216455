//! A client of the API.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Code, Error, ErrorBody};
use crate::runner::{
    Answer, AppendRequest, Appended, AttemptRef, ChildAnswer, ChildRequest, ClaimRequest, Claims, Heartbeat,
    HeartbeatAnswer, RegisterRequest, Registered, RunnerApi,
};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer may take, beyond what it was asked to wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Where a coordinator is.
#[derive(Clone)]
pub struct Connection {
    /// Its address, `http://127.0.0.1:8765`.
    pub url: String,
    /// The token to show.
    pub token: Option<String>,
}

/// Tokens stay out of what is printed.
impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        formatter.debug_struct("Connection").field("url", &self.url).field("token", &token).finish()
    }
}

/// A coordinator, over HTTP.
#[derive(Debug, Clone)]
pub struct Client {
    base: Url,
    token: Option<String>,
    named_by: Option<&'static str>,
    http: reqwest::Client,
}

impl Client {
    /// A client for a coordinator. Nothing is sent yet.
    ///
    /// # Errors
    /// When the address is not one.
    pub fn new(connection: &Connection) -> Result<Client, Error> {
        let invalid = |reason: String| {
            let message = format!("'{}' is not the address of a coordinator: {reason}", connection.url);
            Error::new(Code::InvalidRequest, message)
        };
        let mut text = connection.url.trim().trim_end_matches('/').to_owned();
        text.push('/');
        let base = Url::parse(&text).map_err(|error| invalid(format!("{error}; write http://HOST:PORT")))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(invalid("write http://HOST:PORT or https://HOST:PORT".to_owned()));
        }
        // Whoever came first has installed a provider; that one does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        Ok(Client { base, token: connection.token.clone(), named_by: None, http })
    }

    /// The same, and says where its address comes from when nobody answers: whoever forgot that a variable is set looks
    /// for the fault elsewhere.
    #[must_use]
    pub fn named_by(self, variable: &'static str) -> Client {
        Client { named_by: Some(variable), ..self }
    }

    /// The host and the port that it connects to.
    pub fn host_and_port(&self) -> Option<(&str, u16)> {
        Some((self.base.host_str()?, self.base.port_or_known_default()?))
    }

    /// The coordinator's address.
    pub fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Asks for something.
    ///
    /// # Errors
    /// When it is refused, or nobody answers.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.send(self.request(Method::GET, path)?, ANSWER_TIMEOUT).await
    }

    /// Sends something.
    ///
    /// # Errors
    /// When it is refused, or nobody answers.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.send(self.request(Method::POST, path)?.json_body(body), ANSWER_TIMEOUT).await
    }

    /// Sends something, and gives the answer more time.
    ///
    /// # Errors
    /// When it is refused, or nobody answers.
    pub async fn post_and_wait<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<T, Error> {
        self.send(self.request(Method::POST, path)?.json_body(body), ANSWER_TIMEOUT + wait).await
    }

    /// Takes something away.
    ///
    /// # Errors
    /// When it is refused, or nobody answers.
    pub async fn delete(&self, path: &str) -> Result<(), Error> {
        self.send::<Value>(self.request(Method::DELETE, path)?, ANSWER_TIMEOUT).await.map(|_| ())
    }

    /// A stream of server-sent events, from after `last` on.
    ///
    /// # Errors
    /// When it is refused, or nobody answers.
    pub async fn stream(&self, path: &str, last: Option<&str>) -> Result<EventStream, Error> {
        let mut request = self.request(Method::GET, path)?.header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        match response.status().is_success() {
            true => Ok(EventStream { response, text: Vec::new() }),
            false => Err(refusal(response).await),
        }
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, Error> {
        let url = self.base.join(path.trim_start_matches('/')).map_err(|error| {
            Error::new(Code::InvalidRequest, format!("'{path}' is no address of the API: {error}"))
        })?;
        let request = self.http.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder, limit: Duration) -> Result<T, Error> {
        let response = request.timeout(limit).send().await.map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        let bytes: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(bytes).map_err(|error| {
            let message =
                format!("the coordinator at {} answers what is not understood: {error}", self.address());
            Error::new(Code::Internal, message)
        })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Error {
        let mut reason = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            reason = cause.to_string();
            source = cause.source();
        }
        let mut message = format!("the coordinator at {} cannot be reached: {reason}", self.address());
        if let Some(variable) = self.named_by {
            message.push_str(&format!("; {variable} names it"));
        }
        Error::new(Code::Unavailable, message)
    }
}

/// The longest line of a stream; beyond it the stream is something else.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A stream of server-sent events.
#[derive(Debug)]
pub struct EventStream {
    response: reqwest::Response,
    text: Vec<u8>,
}

impl EventStream {
    /// The data of the next event; none where the stream has ended, or broke.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            while let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                if let Some(data) = line.strip_prefix(b"data:") {
                    return Some(String::from_utf8_lossy(data.trim_ascii()).into_owned());
                }
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            if self.text.len() + chunk.len() > LINE_BYTES_MAX {
                return None;
            }
            self.text.extend_from_slice(&chunk);
        }
    }
}

trait JsonBody {
    fn json_body(self, body: &impl Serialize) -> RequestBuilder;
}

impl JsonBody for RequestBuilder {
    fn json_body(self, body: &impl Serialize) -> RequestBuilder {
        // What is sent are our own shapes, which are all JSON.
        let text = serde_json::to_vec(body).unwrap_or_default();
        self.header("content-type", "application/json").body(text)
    }
}

/// The refusal that a response is.
async fn refusal(response: reqwest::Response) -> Error {
    let status = response.status().as_u16();
    let bytes = response.bytes().await.unwrap_or_default();
    match serde_json::from_slice::<ErrorBody>(&bytes) {
        Ok(body) => body.into(),
        Err(_) => {
            let code = if status >= 500 { Code::Unavailable } else { Code::InvalidRequest };
            let text: String = String::from_utf8_lossy(&bytes).chars().take(200).collect();
            Error::new(code, format!("the server answers {status}, and not as a coordinator does: {text}"))
        }
    }
}

impl RunnerApi for Client {
    fn register<'a>(&'a self, registration_request: &'a RegisterRequest) -> Answer<'a, Registered> {
        Box::pin(self.post("runner/register", registration_request))
    }

    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Answer<'a, Claims> {
        let wait = Duration::from_millis(request.wait_ms);
        Box::pin(self.post_and_wait("runner/claim", request, wait))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Answer<'a, HeartbeatAnswer> {
        Box::pin(self.post("runner/heartbeat", heartbeat))
    }

    fn append<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        Box::pin(self.post("runner/append", request))
    }

    fn finish<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        Box::pin(self.post("runner/finish", request))
    }

    fn park<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        Box::pin(async move { self.post::<Value>("runner/park", attempt).await.map(|_| ()) })
    }

    fn release<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        Box::pin(async move { self.post::<Value>("runner/release", attempt).await.map(|_| ()) })
    }

    fn delegate<'a>(&'a self, request: &'a ChildRequest) -> Answer<'a, ChildAnswer> {
        Box::pin(self.post("runner/delegate", request))
    }
}

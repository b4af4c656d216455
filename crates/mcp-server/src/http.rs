//! The server over HTTP: `POST /mcp`, and for versions before 2026-07-28 a stream of changes at `GET /mcp`.
//!
//! Clients of these versions get a session id. It names no state in memory: it makes their requests distinguishable, so
//! that any coordinator can find the run that a request has started.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Json, Router};
use http_body_util::Full;
use http_body_util::channel::{self, Channel};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::{Value, json};
use slipform_api::{Caller, CallerApi, ErrorBody};
use tokio_util::sync::CancellationToken;

use crate::calls::{self, SESSION_HEADER};
use crate::changes::Subscription;
use crate::server::{McpServer, is_modern_version};

/// The most bytes of a body that is parsed here. Messages without arguments are far smaller.
const PEEK_BYTES_MAX: usize = 16 * 1024;

/// The most bytes of a body. The server in front of the router has a limit of its own.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The interval of comments in a stream of changes. Proxies close connections that are silent for a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The path of the server.
pub const PATH: &str = "/mcp";

/// The code of errors that JSON-RPC has no code for.
const SERVER_ERROR: i32 = -32000;

/// The header with the version of the protocol.
const VERSION_HEADER: &str = "mcp-protocol-version";

/// The header in which requests repeat what they name, for proxies.
const NAME_HEADER: &str = "mcp-name";

type Service = StreamableHttpService<McpServer, NeverSessionManager>;

/// Returns the routes. The server that mounts them checks tokens and origins, limits bodies, and attaches the [`Caller`].
pub fn router(server: McpServer) -> Router {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        // Some clients refuse large results in a stream.
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_cancellation_token(server.closing().clone())
        // The server in front of the router has checked both.
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let copies = server.clone();
    let service = StreamableHttpService::new(
        move || Ok(copies.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new().route(PATH, any(handle)).with_state(Endpoint { server, service })
}

/// Returns the message for an error of the server that mounts the routes.
pub fn error_message(error: &ErrorBody) -> Value {
    let error = json!({"code": SERVER_ERROR, "message": error.message, "data": error});
    json!({"jsonrpc": "2.0", "id": null, "error": error})
}

#[derive(Clone)]
struct Endpoint {
    server: McpServer,
    service: Service,
}

async fn handle(State(endpoint): State<Endpoint>, request: Request) -> Response {
    if request.extensions().get::<Caller>().is_none() {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the sender's authority is unknown").into_response();
    }
    let is_legacy = !is_modern(request.headers());
    match *request.method() {
        Method::GET if is_legacy => endpoint.changes(request.headers()).await,
        // The session has no state that could be deleted.
        Method::DELETE if is_legacy => StatusCode::NO_CONTENT.into_response(),
        _ => endpoint.message(request).await,
    }
}

fn is_modern(headers: &HeaderMap) -> bool {
    let version = headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok());
    version.is_some_and(is_modern_version)
}

/// The members of a message that decide how it is handled here.
#[derive(Deserialize)]
struct Peek {
    method: Option<String>,
    #[serde(default)]
    params: Value,
}

impl Endpoint {
    /// Handles a posted message.
    async fn message(&self, request: Request) -> Response {
        let (mut parts, body) = request.into_parts();
        let Ok(body) = axum::body::to_bytes(body, BODY_BYTES_MAX).await else {
            return (StatusCode::BAD_REQUEST, "the body is incomplete").into_response();
        };
        let peek =
            if body.len() <= PEEK_BYTES_MAX { serde_json::from_slice::<Peek>(&body).ok() } else { None };
        let method = peek.as_ref().and_then(|peek| peek.method.as_deref());
        let starts_session = method == Some("initialize");
        if let (Some("notifications/cancelled"), Some(peek)) = (method, &peek) {
            let caller = parts.extensions.get::<Caller>();
            if let (Some(session), Some(caller)) = (parts.headers.get(SESSION_HEADER), caller) {
                cancel(caller.0.clone(), session, &peek.params["requestId"]);
            }
        }
        if method.is_some_and(|method| method.starts_with("tasks/"))
            && !parts.headers.contains_key(NAME_HEADER)
        {
            // Some clients leave the header out; the body has the same id.
            let task = peek.as_ref().and_then(|peek| peek.params["taskId"].as_str());
            if let Some(Ok(task)) = task.map(HeaderValue::from_str) {
                parts.headers.insert(NAME_HEADER, task);
            }
        }
        let response = self.service.handle(Request::from_parts(parts, Full::new(body))).await;
        let mut response = response.map(Body::new);
        if starts_session
            && response.status() == StatusCode::OK
            && let Some(id) = session_id()
        {
            response.headers_mut().insert(SESSION_HEADER, id);
        }
        response
    }

    /// Opens a stream of changes.
    async fn changes(&self, headers: &HeaderMap) -> Response {
        let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        if !accepted.is_some_and(|accepted| accepted.contains("text/event-stream")) {
            let message = "send the header `Accept: text/event-stream`, or post a message";
            return (StatusCode::NOT_ACCEPTABLE, Json(json!({"error": message}))).into_response();
        }
        let (sender, body) = Channel::new(1);
        let changes = self.server.changes().subscribe().await;
        tokio::spawn(announce(changes, self.server.closing().clone(), sender));
        let head = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        (head, Body::new(body)).into_response()
    }
}

/// Sends a message for each list that may have changed, until the client is gone or the server closes.
async fn announce(
    mut changes: Subscription,
    closing: CancellationToken,
    mut sender: channel::Sender<Bytes, Infallible>,
) {
    // Shows that the stream is open.
    let mut text = ": \n\n".to_owned();
    while sender.send_data(Bytes::from(text)).await.is_ok() {
        text = tokio::select! {
            () = changes.next() => LISTS.map(changed_message).concat(),
            () = tokio::time::sleep(KEEP_ALIVE) => ": \n\n".to_owned(),
            () = closing.cancelled() => return,
        };
    }
}

/// The lists whose changes are announced.
const LISTS: [&str; 3] = ["tools", "prompts", "resources"];

fn changed_message(list: &str) -> String {
    let message = json!({"jsonrpc": "2.0", "method": format!("notifications/{list}/list_changed")});
    format!("event: message\ndata: {message}\n\n")
}

/// Stops the run of a cancelled request in the background.
fn cancel(api: Arc<dyn CallerApi>, session: &HeaderValue, request: &Value) {
    let session = session.as_bytes().to_vec();
    let request = request.as_str().map_or_else(|| request.to_string(), str::to_owned);
    tokio::spawn(async move {
        if let Err(error) = calls::cancel(&*api, &session, &request).await {
            tracing::warn!("a cancelled call could not be stopped: {error}");
        }
    });
}

/// Returns a random session id, or `None` without random numbers: sessions are optional.
fn session_id() -> Option<HeaderValue> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    HeaderValue::from_str(&slipform_types::with_hex("mcp_", &bytes)).ok()
}

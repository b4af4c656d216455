//! Extractors that parse requests and reject invalid ones.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::json;
use slipform_api::{Code, Error};
use slipform_types::{RunId, SessionId};

use super::context::Context;
use super::errors::ErrorResponse;
use super::guard::Requester;
use super::limits::{BodyMemory, is_runner_request};
use super::mounted::Mount;
use super::places::Peer;
use crate::app::App;

/// Time limit for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// Time spent reading the rest of an oversized body. Closing earlier would keep the client from receiving
/// the response.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// The app with the authority of the request's sender.
pub(super) struct CallerApp(pub(super) App);

impl FromRequestParts<Arc<Context>> for CallerApp {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, ErrorResponse> {
        match parts.extensions.get::<Requester>() {
            Some(Requester::Anonymous) | None => {
                Err(ErrorResponse::new(Code::Unauthorized, "this request requires a token"))
            }
            Some(requester) => Ok(CallerApp(context.app_for(requester))),
        }
    }
}

/// A JSON request body with the matching content type.
pub(super) struct ValidJson<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<Context>> for ValidJson<T> {
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, context: &Arc<Context>) -> Result<Self, ErrorResponse> {
        if !is_json(request.headers()) {
            let message = "the body must be JSON; send the header `Content-Type: application/json`";
            return Err(ErrorResponse::new(Code::UnsupportedMediaType, message));
        }
        let (parts, body) = request.into_parts();
        let bytes = read_body(context, &parts, body).await?;
        // Derived `Deserialize` also accepts arrays, in the order of the fields; the API does not.
        let is_object = bytes.trim_ascii_start().first() == Some(&b'{');
        match serde_json::from_slice(&bytes) {
            Ok(value) if is_object => Ok(ValidJson(value)),
            Err(error) if is_object || !error.is_data() => Err(ErrorResponse(parse_error(&error))),
            _ => Err(ErrorResponse(not_an_object())),
        }
    }
}

/// Reads the body of a request, within the limits of its sender and of all requests.
pub(super) async fn read_body(context: &Context, parts: &Parts, body: Body) -> Result<Vec<u8>, Error> {
    let budget = context.budget(&parts.uri);
    let peer = parts.extensions.get::<Peer>().copied().unwrap_or(Peer::Local);
    let _place = budget.bodies.take(peer)?;
    let memory = parts.extensions.get::<BodyMemory>().cloned().unwrap_or_default();
    let limit = if is_runner_request(&parts.uri) {
        context.options.max_runner_body_bytes
    } else {
        let mount = Mount::of(&context.options.mounts, parts.uri.path());
        mount.and_then(|mount| mount.max_body_bytes).unwrap_or(context.options.max_body_bytes)
    };
    let reading = read(body, limit, |bytes| memory.grow_to(bytes, &budget.body_kib));
    let read = tokio::time::timeout(BODY_TIMEOUT, reading).await;
    read.unwrap_or_else(|_| Err(Error::new(Code::InvalidRequest, "timed out receiving the body")))
}

/// Reads a body of up to `limit` bytes. Memory is reserved for what has arrived, so that a body that is announced
/// but not sent takes none.
async fn read(
    mut body: Body,
    limit: usize,
    grow_to: impl Fn(usize) -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| Error::new(Code::InvalidRequest, format!("the body is incomplete: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let refused = if bytes.len() + data.len() > limit {
            let message = format!("the body exceeds the limit of {limit} bytes");
            Some(Error::new(Code::PayloadTooLarge, message).with(json!({"max_bytes": limit})))
        } else {
            grow_to(bytes.len() + data.len()).err()
        };
        if let Some(refused) = refused {
            drop((bytes, data));
            let discard = async { while let Some(Ok(_)) = body.frame().await {} };
            let _ = tokio::time::timeout(DISCARD_TIMEOUT, discard).await;
            return Err(refused);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    ["application/json", "application/merge-patch+json"].iter().any(|json| kind.eq_ignore_ascii_case(json))
}

fn not_an_object() -> Error {
    let message = "invalid body: expected an object at line 1 column 1";
    Error::new(Code::InvalidRequest, message).with(json!({"line": 1, "column": 1}))
}

fn parse_error(error: &serde_json::Error) -> Error {
    let problem = if error.is_data() { "invalid body" } else { "the body is not JSON" };
    let details = json!({"line": error.line(), "column": error.column()});
    Error::new(Code::InvalidRequest, format!("{problem}: {}", without_rust_names(&error.to_string())))
        .with(details)
}

/// Replaces Rust type names in serde's message.
fn without_rust_names(text: &str) -> String {
    let Some((found, expected)) = text.rsplit_once(", expected ") else { return text.to_owned() };
    let (kind, place) = expected.split_at(expected.find(" at line ").unwrap_or(expected.len()));
    let kind = match kind {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number that is not negative",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "an array",
        "a map" => "an object",
        "unit" => "null",
        kind if kind.starts_with("struct ") => "an object",
        kind => kind,
    };
    let found = found.replacen("invalid type: map", "invalid type: object", 1);
    let found = found.replacen("invalid type: sequence", "invalid type: array", 1);
    format!("{found}, expected {kind}{place}")
}

/// The query string of a request.
pub(super) struct ValidQuery<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Context>> for ValidQuery<T> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Context>) -> Result<Self, ErrorResponse> {
        Query::try_from_uri(&parts.uri).map(|Query(query)| ValidQuery(query)).map_err(|rejection| {
            let message = format!("invalid query `{}`: {}", shown_query(&parts.uri), reason(&rejection));
            ErrorResponse::new(Code::InvalidRequest, message)
        })
    }
}

/// Maximum length of a query shown in an error.
const SHOWN_CHARACTERS_MAX: usize = 200;

fn shown_query(uri: &axum::http::Uri) -> String {
    uri.query().unwrap_or_default().chars().take(SHOWN_CHARACTERS_MAX).collect()
}

fn reason(rejection: &axum::extract::rejection::QueryRejection) -> String {
    let text = rejection.body_text();
    text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text).to_owned()
}

/// Returns the last path parameter.
async fn path_parameter(parts: &mut Parts, context: &Arc<Context>) -> Option<String> {
    Path::<String>::from_request_parts(parts, context).await.ok().map(|Path(text)| text)
}

/// The run id in the path. An invalid id yields `RunNotFound`.
pub(super) struct RunIdPath(pub(super) RunId);

impl FromRequestParts<Arc<Context>> for RunIdPath {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, ErrorResponse> {
        let id = path_parameter(parts, context).await.unwrap_or_default();
        id.parse()
            .map(RunIdPath)
            .map_err(|error| ErrorResponse::new(Code::RunNotFound, format!("run not found: {error}")))
    }
}

/// The session id in the path. An invalid id yields `SessionNotFound`.
pub(super) struct SessionIdPath(pub(super) SessionId);

impl FromRequestParts<Arc<Context>> for SessionIdPath {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, ErrorResponse> {
        let id = path_parameter(parts, context).await.unwrap_or_default();
        id.parse()
            .map(SessionIdPath)
            .map_err(|error| ErrorResponse::new(Code::SessionNotFound, format!("session not found: {error}")))
    }
}

/// The agent or schema name in the path.
pub(super) struct NamePath(pub(super) String);

impl FromRequestParts<Arc<Context>> for NamePath {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, ErrorResponse> {
        // A name that is not UTF-8 becomes U+FFFD, which no agent or schema has, so that the operation
        // reports it as unknown.
        Ok(NamePath(path_parameter(parts, context).await.unwrap_or_else(|| "\u{fffd}".to_owned())))
    }
}

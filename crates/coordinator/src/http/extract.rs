//! What handlers are given, taken from requests; what cannot be taken is refused here.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::json;
use slipform_api::{Code, Error};
use slipform_types::{RunId, SessionId};

use super::context::Context;
use super::errors::Refused;
use super::limits::is_of_runner;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a body that is too long is still read. Closing before it was sent would hide the answer from its sender.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request, which has to be JSON and say so.
pub(super) struct ValidJson<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<Context>> for ValidJson<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, context: &Arc<Context>) -> Result<Self, Refused> {
        if !is_json(request.headers()) {
            let message = "the body must be JSON: send the header 'Content-Type: application/json'";
            return Err(Refused::new(Code::UnsupportedMediaType, message));
        }
        let _room = context.admit_body()?;
        let limit = match is_of_runner(request.uri()) {
            true => context.options.max_runner_body_bytes,
            false => context.options.max_body_bytes,
        };
        let bytes = tokio::time::timeout(BODY_TIMEOUT, read(request.into_body(), limit)).await;
        let bytes = bytes
            .unwrap_or_else(|_| Err(Error::new(Code::InvalidRequest, "the body took too long to arrive")))?;
        // What is derived takes arrays as well, and reads them in the order of its fields.
        let is_object = bytes.trim_ascii_start().first() == Some(&b'{');
        match serde_json::from_slice(&bytes) {
            Ok(value) if is_object => Ok(ValidJson(value)),
            Err(error) if is_object || !error.is_data() => Err(Refused(not_understood(&error))),
            _ => Err(Refused(not_an_object())),
        }
    }
}

async fn read(mut body: Body, limit: usize) -> Result<Bytes, Error> {
    match Limited::new(&mut body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let discard = async { while let Some(Ok(_)) = body.frame().await {} };
            let _ = tokio::time::timeout(DISCARD_TIMEOUT, discard).await;
            let message = format!("the body is longer than the {limit} bytes that are taken");
            Err(Error::new(Code::PayloadTooLarge, message).with(json!({"max_bytes": limit})))
        }
        Err(error) => Err(Error::new(Code::InvalidRequest, format!("the body broke off: {error}"))),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

fn not_an_object() -> Error {
    let message = "the body is not what is expected here: expected an object at line 1 column 1";
    Error::new(Code::InvalidRequest, message).with(json!({"line": 1, "column": 1}))
}

fn not_understood(error: &serde_json::Error) -> Error {
    let what = match error.is_data() {
        true => "the body is not what is expected here",
        false => "the body is not JSON",
    };
    let details = json!({"line": error.line(), "column": error.column()});
    Error::new(Code::InvalidRequest, format!("{what}: {}", plain(&error.to_string()))).with(details)
}

/// What serde says, without the names that things have in Rust.
fn plain(text: &str) -> String {
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

/// The query of a request.
pub(super) struct ValidQuery<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Context>> for ValidQuery<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Context>) -> Result<Self, Refused> {
        Query::try_from_uri(&parts.uri).map(|Query(query)| ValidQuery(query)).map_err(|rejection| {
            let message =
                format!("the query '{}' is not understood: {}", shown(&parts.uri), reason(&rejection));
            Refused::new(Code::InvalidRequest, message)
        })
    }
}

/// How much of a query that is not understood is repeated.
const SHOWN_CHARACTERS_MAX: usize = 200;

fn shown(uri: &axum::http::Uri) -> String {
    uri.query().unwrap_or_default().chars().take(SHOWN_CHARACTERS_MAX).collect()
}

fn reason(rejection: &axum::extract::rejection::QueryRejection) -> String {
    let text = rejection.body_text();
    text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text).to_owned()
}

/// The last part of an address that names something.
async fn segment(parts: &mut Parts, context: &Arc<Context>) -> Option<String> {
    Path::<String>::from_request_parts(parts, context).await.ok().map(|Path(text)| text)
}

/// The run that an address names. What is no id is the id of no run.
pub(super) struct RunAt(pub(super) RunId);

impl FromRequestParts<Arc<Context>> for RunAt {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, Refused> {
        let id = segment(parts, context).await.unwrap_or_default();
        id.parse()
            .map(RunAt)
            .map_err(|error| Refused::new(Code::RunNotFound, format!("there is no such run: {error}")))
    }
}

/// The session that an address names.
pub(super) struct SessionAt(pub(super) SessionId);

impl FromRequestParts<Arc<Context>> for SessionAt {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, Refused> {
        let id = segment(parts, context).await.unwrap_or_default();
        id.parse().map(SessionAt).map_err(|error| {
            Refused::new(Code::SessionNotFound, format!("there is no such session: {error}"))
        })
    }
}

/// The agent or schema that an address names, as it was written.
pub(super) struct NameAt(pub(super) String);

impl FromRequestParts<Arc<Context>> for NameAt {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, Refused> {
        // What is no text is the name of nothing; the verb says so in its own words.
        Ok(NameAt(segment(parts, context).await.unwrap_or_else(|| "\u{fffd}".to_owned())))
    }
}

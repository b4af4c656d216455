//! Converts errors into responses. No other module knows HTTP status codes of errors.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use slipform_api::{Code, Error};

use super::mounted::ErrorForm;

/// `Retry-After` in seconds. Overload and restarts are short.
pub(super) const RETRY_AFTER_SECONDS: u32 = 1;

/// An error as an HTTP response.
#[derive(Debug)]
pub(super) struct ErrorResponse(pub(super) Error);

impl ErrorResponse {
    pub(super) fn new(code: Code, message: impl Into<String>) -> ErrorResponse {
        ErrorResponse(Error::new(code, message))
    }
}

/// Returns the response for an error before a request has reached its handler, in the form of a mounted router or
/// in that of the API.
pub(super) fn refusal(form: Option<ErrorForm>, error: Error) -> Response {
    let body = form.map(|form| Json(form(&error.body())).into_response().into_body());
    let mut response = ErrorResponse(error).into_response();
    if let Some(body) = body {
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = body;
    }
    response
}

impl From<Error> for ErrorResponse {
    fn from(error: Error) -> ErrorResponse {
        ErrorResponse(error)
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let ErrorResponse(error) = self;
        let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(error.body())).into_response();
        if let Some((name, value)) = header_of(error.code) {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// Returns the additional header for an error code.
fn header_of(code: Code) -> Option<(HeaderName, HeaderValue)> {
    match code {
        Code::Unauthorized => Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        code if code.is_passing() => Some((header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS))),
        _ => None,
    }
}

/// The fallback for unknown paths.
pub(super) async fn not_found(uri: axum::http::Uri) -> ErrorResponse {
    let message = format!("no route for {}; GET /openapi.json lists all routes", uri.path());
    ErrorResponse::new(Code::NotFound, message)
}

/// The fallback for unsupported methods. The router sets `Allow`.
pub(super) async fn method_not_allowed(method: axum::http::Method, uri: axum::http::Uri) -> ErrorResponse {
    let message = format!("{} does not support {method}; see the `Allow` header", uri.path());
    ErrorResponse::new(Code::MethodNotAllowed, message)
}

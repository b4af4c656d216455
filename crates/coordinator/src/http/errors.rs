//! Refusals as they are sent. Status codes are here and nowhere below.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use slipform_api::{Code, Error};

/// When to ask again, in seconds: overload and restarts pass quickly.
pub(super) const RETRY_AFTER_SECONDS: u32 = 1;

/// A refusal on its way out.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Error);

impl Refused {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Refused {
        Refused(Error::new(code, message))
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Refused(error) = self;
        let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(error.body())).into_response();
        if let Some((name, value)) = header_of(error.code) {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// What a client has to know besides the body.
fn header_of(code: Code) -> Option<(HeaderName, HeaderValue)> {
    match code {
        Code::Unauthorized => Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        code if code.is_passing() => Some((header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS))),
        _ => None,
    }
}

/// Nothing is at this address.
pub(super) async fn not_found(uri: axum::http::Uri) -> Refused {
    let message = format!("there is nothing at {}; GET /openapi.json lists what there is", uri.path());
    Refused::new(Code::NotFound, message)
}

/// The address takes other methods; the router says which in `Allow`.
pub(super) async fn method_not_allowed(method: axum::http::Method, uri: axum::http::Uri) -> Refused {
    let message = format!("{} does not take {method}; the header Allow says what it takes", uri.path());
    Refused::new(Code::MethodNotAllowed, message)
}

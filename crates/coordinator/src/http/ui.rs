//! Serves the dashboard.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use slipform_api::Code;
use slipform_ui::Asset;

use super::errors::ErrorResponse;

/// What pages may load: files of this server only, and no markup from strings.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types svelte-trusted-html";

/// How long browsers keep files whose names contain a hash of their content.
const CACHE_IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Browsers ask whether the page has changed, so that it fits the API.
const CACHE_CHECKED: &str = "no-cache";

/// The routes. They need no token: the files are the same for everyone, and the data comes from the API.
pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(|| async { Redirect::temporary("/ui/") }))
        .route("/ui", get(|| async { Redirect::temporary("/ui/") }))
        .route("/ui/", get(|headers: HeaderMap| async move { respond("", &headers) }))
        .route(
            "/ui/{*path}",
            get(|Path(path): Path<String>, headers: HeaderMap| async move { respond(&path, &headers) }),
        )
}

fn respond(path: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = slipform_ui::asset(path) else {
        let message = "the dashboard has no such file; reload the page";
        return ErrorResponse::new(Code::NotFound, message).into_response();
    };
    let matches = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().split(';').next() == Some(word))
    };
    if matches(header::IF_NONE_MATCH, asset.etag) {
        return with_headers(StatusCode::NOT_MODIFIED.into_response(), &asset);
    }
    let gzip = asset.gzip.filter(|_| matches(header::ACCEPT_ENCODING, "gzip"));
    let mut response = gzip.unwrap_or(asset.bytes).into_response();
    if gzip.is_some() {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    with_headers(response, &asset)
}

fn with_headers(mut response: Response, asset: &Asset) -> Response {
    let cache = if asset.is_immutable { CACHE_IMMUTABLE } else { CACHE_CHECKED };
    let headers = [
        (header::ETAG, asset.etag),
        (header::CACHE_CONTROL, cache),
        (header::VARY, "accept-encoding"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

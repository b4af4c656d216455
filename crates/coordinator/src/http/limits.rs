//! Bounds on requests that are answered at once. Those that wait on purpose bound themselves.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Uri;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::context::{Context, too_slow};
use super::errors::Refused;

/// So many at a time, and each within its time.
pub(super) async fn limit(State(context): State<Arc<Context>>, request: Request, next: Next) -> Response {
    let room = match is_of_runner(request.uri()) {
        true => context.admit_runner(),
        false => context.admit(),
    };
    let _room = match room {
        Ok(room) => room,
        Err(error) => return Refused(error).into_response(),
    };
    match tokio::time::timeout(context.options.request_timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refused(too_slow()).into_response(),
    }
}

/// Whether a request is a runner's.
pub(super) fn is_of_runner(uri: &Uri) -> bool {
    uri.path().starts_with("/runner/")
}

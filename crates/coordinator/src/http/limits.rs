//! Limits the number and duration of short requests. Long polls and streams have their own limits.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Uri;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::context::{Context, timeout_error};
use super::errors::ErrorResponse;

/// Middleware that acquires a permit and applies the request timeout.
pub(super) async fn limit(State(context): State<Arc<Context>>, request: Request, next: Next) -> Response {
    let permit = if is_runner_request(request.uri()) { context.acquire_runner() } else { context.acquire() };
    let _permit = match permit {
        Ok(permit) => permit,
        Err(error) => return ErrorResponse(error).into_response(),
    };
    match tokio::time::timeout(context.options.request_timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ErrorResponse(timeout_error()).into_response(),
    }
}

/// Whether the request belongs to the runner API.
pub(super) fn is_runner_request(uri: &Uri) -> bool {
    uri.path().starts_with("/runner/")
}

//! Handlers for sessions.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use slipform_api::{Code, Error, ErrorBody, ResultView, RunView, SessionPage, SessionView};
use slipform_store::Page;
use utoipa::IntoParams;

use super::context::Shared;
use super::errors::ErrorResponse;
use super::extract::{SessionIdPath, ValidQuery};

/// Default page size.
const LIMIT: usize = 100;

/// Maximum page size.
pub(super) const LIMIT_MAX: i64 = 1_000;

/// Query parameters of `GET /sessions`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionsQuery {
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    after: Option<String>,
    /// Maximum number of sessions; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<i64>,
}

/// Validates the paging parameters.
pub(super) fn page(after: Option<String>, limit: Option<i64>) -> Result<Page, Error> {
    let is_cursor =
        |text: &String| (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if after.as_ref().is_some_and(|after| !is_cursor(after)) {
        let message = "invalid `after`; send `next` of the previous page or omit it";
        return Err(Error::new(Code::InvalidRequest, message));
    }
    Ok(Page { after, limit: checked_limit(limit)? })
}

/// Validates a page size.
pub(super) fn checked_limit(limit: Option<i64>) -> Result<usize, Error> {
    match limit {
        None => Ok(LIMIT),
        Some(limit @ 1..=LIMIT_MAX) => Ok(usize::try_from(limit).unwrap_or(LIMIT)),
        Some(_) => Err(Error::new(Code::InvalidRequest, format!("`limit` must be from 1 to {LIMIT_MAX}"))),
    }
}

/// Lists sessions, newest first.
#[utoipa::path(get, path = "/sessions", tag = "sessions", params(SessionsQuery),
    responses((status = 200, description = "A page of sessions.", body = SessionPage)))]
pub(super) async fn list(
    State(context): Shared,
    ValidQuery(query): ValidQuery<SessionsQuery>,
) -> Result<Json<SessionPage>, ErrorResponse> {
    Ok(Json(context.app.sessions(page(query.after, query.limit)?).await?))
}

/// Returns a session.
#[utoipa::path(get, path = "/sessions/{session_id}", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses((status = 200, description = "The session.", body = SessionView)))]
pub(super) async fn show(
    State(context): Shared,
    SessionIdPath(session): SessionIdPath,
) -> Result<Json<SessionView>, ErrorResponse> {
    Ok(Json(context.app.session(&session).await?))
}

/// Deletes a session and its descendants.
#[utoipa::path(delete, path = "/sessions/{session_id}", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses(
        (status = 204, description = "The session is deleted."),
        (status = 409, description = "A run has not ended, or another run waits for a result of this session.", body = ErrorBody),
    ))]
pub(super) async fn delete(
    State(context): Shared,
    SessionIdPath(session): SessionIdPath,
) -> Result<StatusCode, ErrorResponse> {
    context.app.delete_session(&session).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks the runs of a session to stop. An ended run is unchanged.
#[utoipa::path(post, path = "/sessions/{session_id}/stop", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses((status = 200, description = "The run.", body = RunView)))]
pub(super) async fn stop(
    State(context): Shared,
    SessionIdPath(session): SessionIdPath,
) -> Result<Json<RunView>, ErrorResponse> {
    Ok(Json(context.app.stop_session(&session).await?))
}

/// Returns the result of a session's latest run.
#[utoipa::path(get, path = "/sessions/{session_id}/result", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses(
        (status = 200, description = "The result, or the usable parts of a failed run.", body = ResultView),
        (status = 409, description = "The run has not ended.", body = ErrorBody),
    ))]
pub(super) async fn result(
    State(context): Shared,
    SessionIdPath(session): SessionIdPath,
) -> Result<Json<ResultView>, ErrorResponse> {
    Ok(Json(context.app.result(&session).await?))
}

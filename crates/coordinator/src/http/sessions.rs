//! Handlers for sessions.

use axum::Json;
use axum::http::StatusCode;
use slipform_api::{ErrorBody, ResultView, RunView, SessionPage, SessionView, SessionsQuery};

use super::errors::ErrorResponse;
use super::extract::{CallerApp, SessionIdPath, ValidQuery};

/// Lists sessions, newest first.
#[utoipa::path(get, path = "/sessions", tag = "sessions", params(SessionsQuery),
    responses((status = 200, description = "A page of sessions.", body = SessionPage)))]
pub(super) async fn list(
    CallerApp(app): CallerApp,
    ValidQuery(query): ValidQuery<SessionsQuery>,
) -> Result<Json<SessionPage>, ErrorResponse> {
    Ok(Json(app.sessions(query).await?))
}

/// Returns a session.
#[utoipa::path(get, path = "/sessions/{session_id}", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses((status = 200, description = "The session.", body = SessionView)))]
pub(super) async fn show(
    CallerApp(app): CallerApp,
    SessionIdPath(session): SessionIdPath,
) -> Result<Json<SessionView>, ErrorResponse> {
    Ok(Json(app.session(&session).await?))
}

/// Deletes a session and its descendants.
#[utoipa::path(delete, path = "/sessions/{session_id}", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses(
        (status = 204, description = "The session is deleted."),
        (status = 409, description = "A run has not ended, or another run waits for a result of this session.", body = ErrorBody),
    ))]
pub(super) async fn delete(
    CallerApp(app): CallerApp,
    SessionIdPath(session): SessionIdPath,
) -> Result<StatusCode, ErrorResponse> {
    app.delete_session(&session).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks the runs of a session to stop. An ended run is unchanged.
#[utoipa::path(post, path = "/sessions/{session_id}/stop", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses((status = 200, description = "The run.", body = RunView)))]
pub(super) async fn stop(
    CallerApp(app): CallerApp,
    SessionIdPath(session): SessionIdPath,
) -> Result<Json<RunView>, ErrorResponse> {
    Ok(Json(app.stop_session(&session).await?))
}

/// Returns the result of a session's latest run.
#[utoipa::path(get, path = "/sessions/{session_id}/result", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses(
        (status = 200, description = "The result, or the usable parts of a failed run.", body = ResultView),
        (status = 409, description = "The run has not ended.", body = ErrorBody),
    ))]
pub(super) async fn result(
    CallerApp(app): CallerApp,
    SessionIdPath(session): SessionIdPath,
) -> Result<Json<ResultView>, ErrorResponse> {
    Ok(Json(app.session_result(&session).await?))
}

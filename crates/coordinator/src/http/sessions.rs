//! Sessions.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use slipform_api::{Code, Error, ErrorBody, ResultView, RunView, SessionPage, SessionView};
use slipform_store::Page;
use utoipa::IntoParams;

use super::context::Shared;
use super::errors::Refused;
use super::extract::{SessionAt, ValidQuery};

/// How many are listed where nothing is said.
const LIMIT: usize = 100;

/// The most that are listed at once.
pub(super) const LIMIT_MAX: i64 = 1_000;

/// Which sessions are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionsQuery {
    /// The `next` of the page before.
    #[param(pattern = "^[0-9]{1,18}$")]
    after: Option<String>,
    /// How many at most; 100 where nothing is said.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<i64>,
}

/// A page that makes sense.
pub(super) fn page(after: Option<String>, limit: Option<i64>) -> Result<Page, Error> {
    let is_cursor =
        |text: &String| (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if after.as_ref().is_some_and(|after| !is_cursor(after)) {
        let message = "after is not where a page begins; send the next of the page before, or nothing";
        return Err(Error::new(Code::InvalidRequest, message));
    }
    Ok(Page { after, limit: checked_limit(limit)? })
}

/// A limit that makes sense.
pub(super) fn checked_limit(limit: Option<i64>) -> Result<usize, Error> {
    match limit {
        None => Ok(LIMIT),
        Some(limit @ 1..=LIMIT_MAX) => Ok(usize::try_from(limit).unwrap_or(LIMIT)),
        Some(_) => Err(Error::new(Code::InvalidRequest, format!("limit must be from 1 to {LIMIT_MAX}"))),
    }
}

/// Sessions, newest first.
#[utoipa::path(get, path = "/sessions", tag = "sessions", params(SessionsQuery),
    responses((status = 200, description = "Some of them.", body = SessionPage)))]
pub(super) async fn list(
    State(context): Shared,
    ValidQuery(query): ValidQuery<SessionsQuery>,
) -> Result<Json<SessionPage>, Refused> {
    Ok(Json(context.app.sessions(page(query.after, query.limit)?).await?))
}

/// A session as it stands.
#[utoipa::path(get, path = "/sessions/{session_id}", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses((status = 200, description = "The session.", body = SessionView)))]
pub(super) async fn show(
    State(context): Shared,
    SessionAt(session): SessionAt,
) -> Result<Json<SessionView>, Refused> {
    Ok(Json(context.app.session(&session).await?))
}

/// Deletes a session with all that it led to.
#[utoipa::path(delete, path = "/sessions/{session_id}", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses(
        (status = 204, description = "It is gone."),
        (status = 409, description = "It has a run that has not ended.", body = ErrorBody),
    ))]
pub(super) async fn delete(
    State(context): Shared,
    SessionAt(session): SessionAt,
) -> Result<StatusCode, Refused> {
    context.app.delete_session(&session).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks a session's run to stop. One that has ended stays as it is.
#[utoipa::path(post, path = "/sessions/{session_id}/stop", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses((status = 200, description = "The run.", body = RunView)))]
pub(super) async fn stop(
    State(context): Shared,
    SessionAt(session): SessionAt,
) -> Result<Json<RunView>, Refused> {
    Ok(Json(context.app.stop_session(&session).await?))
}

/// What came of a session's latest run.
#[utoipa::path(get, path = "/sessions/{session_id}/result", tag = "sessions", params(("session_id" = slipform_api::SessionIdText, Path)),
    responses(
        (status = 200, description = "The result, or what can be used of a failed run.", body = ResultView),
        (status = 409, description = "The run has not ended.", body = ErrorBody),
    ))]
pub(super) async fn result(
    State(context): Shared,
    SessionAt(session): SessionAt,
) -> Result<Json<ResultView>, Refused> {
    Ok(Json(context.app.result(&session).await?))
}

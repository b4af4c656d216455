//! Handlers for runs.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use slipform_api::{
    CallList, Code, Error, ErrorBody, RunCreated, RunPage, RunRequest, RunView, RunsQuery, WaitQuery,
};
use slipform_types::{ExecutionMode, RunId, TraceParent};

use super::context::{Context, Shared};
use super::errors::ErrorResponse;
use super::extract::{CallerApp, RunIdPath, ValidJson, ValidQuery};
use super::places::Peer;
use crate::app::App;

/// Maximum time that a caller may wait.
const WAIT_SECONDS_MAX: f64 = 600.0;

/// Time that a `sync` caller waits for a run without a time limit.
const SYNC_WAIT: Duration = Duration::from_secs(300);

/// Submits a run.
#[utoipa::path(
    post,
    path = "/runs",
    tag = "runs",
    params(WaitQuery, ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
        description = "Repeating a request with the same key and body returns the same run."),
        ("traceparent" = Option<String>, Header, description = "Position of the caller in its trace, which the spans of the run continue.")),
    request_body = RunRequest,
    responses(
        (status = 200, description = "The run has ended within the requested wait.", body = RunView),
        (status = 201, description = "The run is accepted.", body = RunCreated),
        (status = 202, description = "The run has not ended within the requested wait.", body = RunView),
        (status = 403, description = "The folder is outside the runner's project, which requires an `admin` token.", body = ErrorBody),
        (status = 404, description = "Unknown agent, schema or session.", body = ErrorBody),
        (status = 409, description = "The session is busy or cannot be resumed, the agent has its own output schema, or the key belongs to another request.", body = ErrorBody),
        (status = 422, description = "Invalid agent, parameters or schema.", body = ErrorBody),
    )
)]
pub(super) async fn submit(
    State(context): Shared,
    CallerApp(app): CallerApp,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    ValidQuery(query): ValidQuery<WaitQuery>,
    ValidJson(mut request): ValidJson<RunRequest>,
) -> Result<Response, ErrorResponse> {
    request.trace_parent = trace_parent(&headers);
    let wait = query.wait.map(checked_wait).transpose()?;
    let is_sync = request.execution_mode == ExecutionMode::Sync;
    let key = idempotency_key(&headers)?;
    let created = {
        let _place = context.budget(&uri).requests.take(peer)?;
        context.with_timeout(app.submit(request, key)).await?
    };
    let wait = match (wait, is_sync) {
        (Some(wait), _) => wait,
        (None, true) => default_wait(&app, &created.run_id).await?,
        (None, false) => return Ok((StatusCode::CREATED, Json(created)).into_response()),
    };
    let run = wait_for(&context, &app, &created, wait).await?;
    let status = if run.status.is_ended() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(run)).into_response())
}

/// Returns the caller's position in its trace. A malformed one is ignored, as the standard asks.
fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    headers.get("traceparent")?.to_str().ok()?.parse().ok()
}

/// Waits until the run has ended, the time limit passes, or the server shuts down.
async fn wait_for(
    context: &Context,
    app: &App,
    created: &RunCreated,
    limit: Duration,
) -> Result<RunView, Error> {
    let RunCreated { run_id, session_id, .. } = created;
    tokio::select! {
        run = app.wait_in(session_id, run_id, limit) => run,
        () = context.drain_started() => app.run(run_id).await,
    }
}

async fn default_wait(app: &App, run: &RunId) -> Result<Duration, Error> {
    let limit = app.time_limit(run).await?.unwrap_or(SYNC_WAIT);
    Ok(limit.min(Duration::from_secs_f64(WAIT_SECONDS_MAX)))
}

fn checked_wait(seconds: f64) -> Result<Duration, Error> {
    if (0.0..=WAIT_SECONDS_MAX).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        let message = format!("`wait` must be from 0 to {WAIT_SECONDS_MAX} seconds");
        Err(Error::new(Code::InvalidRequest, message))
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let mut keys = headers.get_all("idempotency-key").into_iter();
    let Some(key) = keys.next() else { return Ok(None) };
    if keys.any(|other| other != key) {
        let message = "the request has several different `Idempotency-Key` headers; send one";
        return Err(Error::new(Code::InvalidRequest, message));
    }
    match key.to_str() {
        Ok(key) => Ok(Some(key.to_owned())),
        Err(_) => Err(Error::new(
            Code::InvalidRequest,
            "`Idempotency-Key` must consist of visible ASCII characters",
        )),
    }
}

/// Lists runs, newest first.
#[utoipa::path(get, path = "/runs", tag = "runs", params(RunsQuery),
    responses((status = 200, description = "A page of runs.", body = RunPage)))]
pub(super) async fn list(
    CallerApp(app): CallerApp,
    ValidQuery(query): ValidQuery<RunsQuery>,
) -> Result<Json<RunPage>, ErrorResponse> {
    Ok(Json(app.runs(query).await?))
}

/// Returns a run, with its result once it has ended.
#[utoipa::path(get, path = "/runs/{run_id}", tag = "runs", params(("run_id" = slipform_api::RunIdText, Path)),
    responses((status = 200, description = "The run.", body = RunView)))]
pub(super) async fn show(
    CallerApp(app): CallerApp,
    RunIdPath(run): RunIdPath,
) -> Result<Json<RunView>, ErrorResponse> {
    Ok(Json(app.run(&run).await?))
}

/// Returns an ended run with its result.
#[utoipa::path(get, path = "/runs/{run_id}/result", tag = "runs", params(("run_id" = slipform_api::RunIdText, Path)),
    responses(
        (status = 200, description = "The run.", body = RunView),
        (status = 409, description = "The run has not ended.", body = ErrorBody),
    ))]
pub(super) async fn result(
    CallerApp(app): CallerApp,
    RunIdPath(run): RunIdPath,
) -> Result<Json<RunView>, ErrorResponse> {
    Ok(Json(app.run_result(&run).await?))
}

/// Lists the model calls of a run: how each was asked, the reply, every repair and violation, and what followed.
#[utoipa::path(get, path = "/runs/{run_id}/calls", tag = "runs", params(("run_id" = slipform_api::RunIdText, Path)),
    responses(
        (status = 200, description = "The calls, oldest first.", body = CallList),
        (status = 413, description = "The journal is too long.", body = ErrorBody),
    ))]
pub(super) async fn calls(
    CallerApp(app): CallerApp,
    RunIdPath(run): RunIdPath,
) -> Result<Json<CallList>, ErrorResponse> {
    Ok(Json(app.calls(&run).await?))
}

/// Asks a run to stop. An ended run is unchanged.
#[utoipa::path(post, path = "/runs/{run_id}/stop", tag = "runs", params(("run_id" = slipform_api::RunIdText, Path)),
    responses((status = 200, description = "The run.", body = RunView)))]
pub(super) async fn stop(
    CallerApp(app): CallerApp,
    RunIdPath(run): RunIdPath,
) -> Result<Json<RunView>, ErrorResponse> {
    Ok(Json(app.stop_run(&run).await?))
}

//! Runs.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use slipform_api::{Code, Error, ErrorBody, RunCreated, RunPage, RunRequest, RunView, WaitQuery};
use slipform_store::RunFilter;
use slipform_types::{ExecutionMode, RunId, RunStatus, SessionId};
use utoipa::IntoParams;

use super::context::{Context, Shared};
use super::errors::Refused;
use super::extract::{RunAt, ValidJson, ValidQuery};
use super::guard::Visitor;
use super::sessions::page;

/// The longest that a caller waits.
const WAIT_SECONDS_MAX: f64 = 600.0;

/// How long a caller waits for a run that has no time limit of its own.
const SYNC_WAIT: Duration = Duration::from_secs(300);

/// Which runs are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RunsQuery {
    /// Those of an agent.
    agent_name: Option<String>,
    /// Those of a session.
    #[param(value_type = Option<String>, pattern = "^ses_[0-9a-f]{12}$")]
    session_id: Option<SessionId>,
    /// Those that stand like this.
    #[param(value_type = Option<slipform_api::RunStatusName>)]
    status: Option<RunStatus>,
    /// Those that work for a run.
    #[param(value_type = Option<String>, pattern = "^run_[0-9a-f]{12}$")]
    parent_run_id: Option<RunId>,
    /// The `next` of the page before.
    #[param(pattern = "^[0-9]{1,18}$")]
    after: Option<String>,
    /// How many at most; 100 where nothing is said.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<i64>,
}

/// Takes a run on.
#[utoipa::path(
    post,
    path = "/runs",
    tag = "runs",
    params(WaitQuery, ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
        description = "Asking again with the same key and body gives the same run.")),
    request_body = RunRequest,
    responses(
        (status = 200, description = "It was waited for, and has ended.", body = RunView),
        (status = 201, description = "It was taken on.", body = RunCreated),
        (status = 202, description = "It was waited for, and has not ended.", body = RunView),
        (status = 403, description = "The folder is outside the runner's project, and the token is not an administrator's.", body = ErrorBody),
        (status = 404, description = "There is no such agent, schema or session.", body = ErrorBody),
        (status = 409, description = "The session is busy or cannot be resumed, the agent has an output schema of its own, or the key was used for something else.", body = ErrorBody),
        (status = 422, description = "The agent, the parameters or the schema cannot be used.", body = ErrorBody),
    )
)]
pub(super) async fn submit(
    State(context): Shared,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    ValidQuery(query): ValidQuery<WaitQuery>,
    ValidJson(request): ValidJson<RunRequest>,
) -> Result<Response, Refused> {
    let wait = query.wait.map(checked_wait).transpose()?;
    let is_sync = request.execution_mode == ExecutionMode::Sync;
    let key = idempotency_key(&headers)?;
    let created = {
        let _room = context.admit()?;
        context.in_time(context.app_for(visitor).submit(request, key)).await?
    };
    let wait = match (wait, is_sync) {
        (Some(wait), _) => wait,
        (None, true) => own_wait(&context, &created.run_id).await?,
        (None, false) => return Ok((StatusCode::CREATED, Json(created)).into_response()),
    };
    let run = wait_for(&context, &created.run_id, wait).await?;
    let status = if run.status.is_ended() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(run)).into_response())
}

/// Waits for a run's end, the end of its time, or that of the server.
async fn wait_for(context: &Context, run: &RunId, limit: Duration) -> Result<RunView, Error> {
    tokio::select! {
        run = context.app.wait(run, limit) => run,
        () = context.drained() => context.app.run(run).await,
    }
}

async fn own_wait(context: &Context, run: &RunId) -> Result<Duration, Error> {
    let limit = context.app.time_limit(run).await?.unwrap_or(SYNC_WAIT);
    Ok(limit.min(Duration::from_secs_f64(WAIT_SECONDS_MAX)))
}

fn checked_wait(seconds: f64) -> Result<Duration, Error> {
    match (0.0..=WAIT_SECONDS_MAX).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => {
            let message = format!("wait must be from 0 to {WAIT_SECONDS_MAX} seconds");
            Err(Error::new(Code::InvalidRequest, message))
        }
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let mut keys = headers.get_all("idempotency-key").into_iter();
    let Some(key) = keys.next() else { return Ok(None) };
    if keys.any(|other| other != key) {
        let message = "the request has several headers Idempotency-Key that differ; send one";
        return Err(Error::new(Code::InvalidRequest, message));
    }
    match key.to_str() {
        Ok(key) => Ok(Some(key.to_owned())),
        Err(_) => Err(Error::new(Code::InvalidRequest, "Idempotency-Key must be visible ASCII characters")),
    }
}

/// Runs, newest first.
#[utoipa::path(get, path = "/runs", tag = "runs", params(RunsQuery),
    responses((status = 200, description = "Some of them.", body = RunPage)))]
pub(super) async fn list(
    State(context): Shared,
    ValidQuery(query): ValidQuery<RunsQuery>,
) -> Result<Json<RunPage>, Refused> {
    let page = page(query.after, query.limit)?;
    let filter = RunFilter {
        session_id: query.session_id,
        agent_name: query.agent_name,
        status: query.status,
        parent_run_id: query.parent_run_id,
    };
    Ok(Json(context.app.runs(filter, page).await?))
}

/// A run as it stands.
#[utoipa::path(get, path = "/runs/{run_id}", tag = "runs", params(("run_id" = slipform_api::RunIdText, Path)),
    responses((status = 200, description = "The run.", body = RunView)))]
pub(super) async fn show(State(context): Shared, RunAt(run): RunAt) -> Result<Json<RunView>, Refused> {
    Ok(Json(context.app.run(&run).await?))
}

/// A run that has ended, with what came of it.
#[utoipa::path(get, path = "/runs/{run_id}/result", tag = "runs", params(("run_id" = slipform_api::RunIdText, Path)),
    responses(
        (status = 200, description = "The run.", body = RunView),
        (status = 409, description = "It has not ended.", body = ErrorBody),
    ))]
pub(super) async fn result(State(context): Shared, RunAt(run): RunAt) -> Result<Json<RunView>, Refused> {
    Ok(Json(context.app.run_result(&run).await?))
}

/// Asks a run to stop. One that has ended stays as it is.
#[utoipa::path(post, path = "/runs/{run_id}/stop", tag = "runs", params(("run_id" = slipform_api::RunIdText, Path)),
    responses((status = 200, description = "The run.", body = RunView)))]
pub(super) async fn stop(State(context): Shared, RunAt(run): RunAt) -> Result<Json<RunView>, Refused> {
    Ok(Json(context.app.stop_run(&run).await?))
}

//! Handlers for the runner API.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use slipform_api::{
    AppendRequest, Appended, AttemptRef, ChildAnswer, ChildRequest, ClaimRequest, Claims, Code, Error,
    ErrorBody, Heartbeat, HeartbeatAnswer, JournalPage, JournalRequest, LeaveRequest, RegisterRequest,
    Registered, RunnerApi as _,
};
use tokio::sync::oneshot;

use super::context::{Context, Shared};
use super::errors::ErrorResponse;
use super::extract::{CallerApp, ValidJson};
use crate::app::App;

/// Registers a runner.
#[utoipa::path(post, path = "/runner/register", tag = "runner", request_body = RegisterRequest,
    responses((status = 200, description = "The runner is registered.", body = Registered)))]
pub(super) async fn register(
    CallerApp(app): CallerApp,
    ValidJson(request): ValidJson<RegisterRequest>,
) -> Result<Json<Registered>, ErrorResponse> {
    Ok(Json(app.register(&request).await?))
}

/// Claims runs, and waits up to `wait_ms` for the first one.
#[utoipa::path(post, path = "/runner/claim", tag = "runner", request_body = ClaimRequest,
    responses((status = 200, description = "The claimed runs; may be empty.", body = Claims)))]
pub(super) async fn claim(
    State(context): Shared,
    CallerApp(app): CallerApp,
    ValidJson(request): ValidJson<ClaimRequest>,
) -> Result<Json<Claims>, ErrorResponse> {
    let (sender, receiver) = oneshot::channel();
    // A separate task, so that claimed runs are not lost when the runner disconnects.
    tokio::spawn(claim_for(context, app, request, sender));
    let broken = |_| Error::new(Code::Internal, "the claim task ended unexpectedly");
    Ok(Json(receiver.await.map_err(broken)??))
}

/// Claims runs for a runner. Releases them if it has disconnected.
async fn claim_for(
    context: Arc<Context>,
    app: App,
    request: ClaimRequest,
    mut runner: oneshot::Sender<Result<Claims, Error>>,
) {
    let given_up = async {
        tokio::select! {
            () = runner.closed() => {}
            () = context.drain_started() => {}
        }
    };
    let claims = app.claim_unless(&request, given_up).await;
    let Err(Ok(Claims { claims })) = runner.send(claims) else { return };
    for assignment in claims {
        let attempt = AttemptRef { run_id: assignment.run_id, token: assignment.token };
        // If the store is unavailable, the lease expires instead.
        let _ = app.release(&attempt).await;
    }
}

/// Renews the leases of attempts.
#[utoipa::path(post, path = "/runner/heartbeat", tag = "runner", request_body = Heartbeat,
    responses((status = 200, description = "Lease status of each attempt.", body = HeartbeatAnswer)))]
pub(super) async fn heartbeat(
    CallerApp(app): CallerApp,
    ValidJson(heartbeat): ValidJson<Heartbeat>,
) -> Result<Json<HeartbeatAnswer>, ErrorResponse> {
    Ok(Json(app.heartbeat(&heartbeat).await?))
}

/// Appends events to a run's journal.
#[utoipa::path(post, path = "/runner/append", tag = "runner", request_body = AppendRequest,
    responses(
        (status = 200, description = "The events are stored.", body = Appended),
        (status = 409, description = "The attempt is not the run's latest, or its lease has expired.", body = ErrorBody),
    ))]
pub(super) async fn append(
    CallerApp(app): CallerApp,
    ValidJson(request): ValidJson<AppendRequest>,
) -> Result<Json<Appended>, ErrorResponse> {
    Ok(Json(app.append_events(request).await?))
}

/// Appends the final events of a run and ends it.
#[utoipa::path(post, path = "/runner/finish", tag = "runner", request_body = AppendRequest,
    responses(
        (status = 200, description = "The events are stored.", body = Appended),
        (status = 409, description = "The attempt is not the run's latest, or its lease has expired.", body = ErrorBody),
        (status = 422, description = "The result does not satisfy its contract.", body = ErrorBody),
    ))]
pub(super) async fn finish(
    CallerApp(app): CallerApp,
    ValidJson(request): ValidJson<AppendRequest>,
) -> Result<Json<Appended>, ErrorResponse> {
    Ok(Json(app.finish(&request).await?))
}

/// Parks a run until a child ends.
#[utoipa::path(post, path = "/runner/park", tag = "runner", request_body = AttemptRef,
    responses(
        (status = 204, description = "The run is parked, or back in the queue."),
        (status = 409, description = "The attempt is not the run's latest, or its lease has expired.", body = ErrorBody),
    ))]
pub(super) async fn park(
    CallerApp(app): CallerApp,
    ValidJson(attempt): ValidJson<AttemptRef>,
) -> Result<StatusCode, ErrorResponse> {
    app.park(&attempt).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns a run to the queue.
#[utoipa::path(post, path = "/runner/release", tag = "runner", request_body = AttemptRef,
    responses(
        (status = 204, description = "The run is back in the queue."),
        (status = 409, description = "The attempt is not the run's latest, or its lease has expired.", body = ErrorBody),
    ))]
pub(super) async fn release(
    CallerApp(app): CallerApp,
    ValidJson(attempt): ValidJson<AttemptRef>,
) -> Result<StatusCode, ErrorResponse> {
    app.release(&attempt).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Starts a child run.
#[utoipa::path(post, path = "/runner/delegate", tag = "runner", request_body = ChildRequest,
    responses(
        (status = 200, description = "The child run, or the reason for its refusal.", body = ChildAnswer),
        (status = 409, description = "The attempt is not the run's latest, or its lease has expired.", body = ErrorBody),
    ))]
pub(super) async fn delegate(
    CallerApp(app): CallerApp,
    ValidJson(request): ValidJson<ChildRequest>,
) -> Result<Json<ChildAnswer>, ErrorResponse> {
    Ok(Json(app.delegate(&request).await?))
}

/// Returns further events of an attempt's session, for assignments with `journal_next`.
#[utoipa::path(post, path = "/runner/journal", tag = "runner", request_body = JournalRequest,
    responses(
        (status = 200, description = "Events, oldest first.", body = JournalPage),
        (status = 409, description = "The attempt is not the run's latest, or its lease has expired.", body = ErrorBody),
    ))]
pub(super) async fn journal(
    CallerApp(app): CallerApp,
    ValidJson(request): ValidJson<JournalRequest>,
) -> Result<Json<JournalPage>, ErrorResponse> {
    Ok(Json(app.journal(&request).await?))
}

/// Removes a runner that has released its runs. It leaves the list of runners at once.
#[utoipa::path(post, path = "/runner/leave", tag = "runner", request_body = LeaveRequest,
    responses((status = 204, description = "The runner is not in the list of runners.")))]
pub(super) async fn leave(
    CallerApp(app): CallerApp,
    ValidJson(request): ValidJson<LeaveRequest>,
) -> Result<StatusCode, ErrorResponse> {
    app.leave(&request).await?;
    Ok(StatusCode::NO_CONTENT)
}

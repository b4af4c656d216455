//! What runners ask for.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use slipform_api::{
    AppendRequest, Appended, AttemptRef, ChildAnswer, ChildRequest, ClaimRequest, Claims, Code, Error,
    ErrorBody, Heartbeat, HeartbeatAnswer, RegisterRequest, Registered, RunnerApi as _,
};
use tokio::sync::oneshot;

use super::context::{Context, Shared};
use super::errors::Refused;
use super::extract::ValidJson;

/// Says registration_request.
#[utoipa::path(post, path = "/runner/register", tag = "runner", request_body = RegisterRequest,
    responses((status = 200, description = "It is known.", body = Registered)))]
pub(super) async fn register(
    State(context): Shared,
    ValidJson(registration_request): ValidJson<RegisterRequest>,
) -> Result<Json<Registered>, Refused> {
    Ok(Json(context.app.register(&registration_request).await?))
}

/// Asks for work, and waits a while for it.
#[utoipa::path(post, path = "/runner/claim", tag = "runner", request_body = ClaimRequest,
    responses((status = 200, description = "Work, or none.", body = Claims)))]
pub(super) async fn claim(
    State(context): Shared,
    ValidJson(request): ValidJson<ClaimRequest>,
) -> Result<Json<Claims>, Refused> {
    let (sender, receiver) = oneshot::channel();
    // A task of its own: what the store has given away must not be lost when the runner goes away meanwhile.
    tokio::spawn(claim_for(context, request, sender));
    let broken = |_| Error::new(Code::Internal, "the claim broke off");
    Ok(Json(receiver.await.map_err(broken)??))
}

/// Claims for somebody who may go away, and gives back what nobody is there for.
async fn claim_for(
    context: Arc<Context>,
    request: ClaimRequest,
    mut asker: oneshot::Sender<Result<Claims, Error>>,
) {
    let given_up = async {
        tokio::select! {
            () = asker.closed() => {}
            () = context.drained() => {}
        }
    };
    let claims = context.app.claim_unless(&request, given_up).await;
    let Err(Ok(Claims { claims })) = asker.send(claims) else { return };
    for work in claims {
        let attempt = AttemptRef { run_id: work.run_id, token: work.token };
        // Where the store does not answer, the lease expires.
        let _ = context.app.release(&attempt).await;
    }
}

/// Says that attempts go on.
#[utoipa::path(post, path = "/runner/heartbeat", tag = "runner", request_body = Heartbeat,
    responses((status = 200, description = "How the attempts stand.", body = HeartbeatAnswer)))]
pub(super) async fn heartbeat(
    State(context): Shared,
    ValidJson(heartbeat): ValidJson<Heartbeat>,
) -> Result<Json<HeartbeatAnswer>, Refused> {
    Ok(Json(context.app.heartbeat(&heartbeat).await?))
}

/// Says what happened.
#[utoipa::path(post, path = "/runner/append", tag = "runner", request_body = AppendRequest,
    responses(
        (status = 200, description = "It was written.", body = Appended),
        (status = 409, description = "The attempt is not the run's latest.", body = ErrorBody),
    ))]
pub(super) async fn append(
    State(context): Shared,
    ValidJson(request): ValidJson<AppendRequest>,
) -> Result<Json<Appended>, Refused> {
    Ok(Json(context.app.append_events(request).await?))
}

/// Says how a run ended.
#[utoipa::path(post, path = "/runner/finish", tag = "runner", request_body = AppendRequest,
    responses(
        (status = 200, description = "It was written.", body = Appended),
        (status = 409, description = "The attempt is not the run's latest.", body = ErrorBody),
        (status = 422, description = "The result does not satisfy its contract.", body = ErrorBody),
    ))]
pub(super) async fn finish(
    State(context): Shared,
    ValidJson(request): ValidJson<AppendRequest>,
) -> Result<Json<Appended>, Refused> {
    Ok(Json(context.app.finish(&request).await?))
}

/// Lets a run wait for its children.
#[utoipa::path(post, path = "/runner/park", tag = "runner", request_body = AttemptRef,
    responses(
        (status = 204, description = "It waits, or is in the queue again."),
        (status = 409, description = "The attempt is not the run's latest.", body = ErrorBody),
    ))]
pub(super) async fn park(
    State(context): Shared,
    ValidJson(attempt): ValidJson<AttemptRef>,
) -> Result<StatusCode, Refused> {
    context.app.park(&attempt).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives a run back.
#[utoipa::path(post, path = "/runner/release", tag = "runner", request_body = AttemptRef,
    responses(
        (status = 204, description = "It is in the queue again."),
        (status = 409, description = "The attempt is not the run's latest.", body = ErrorBody),
    ))]
pub(super) async fn release(
    State(context): Shared,
    ValidJson(attempt): ValidJson<AttemptRef>,
) -> Result<StatusCode, Refused> {
    context.app.release(&attempt).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks for another agent's work.
#[utoipa::path(post, path = "/runner/delegate", tag = "runner", request_body = ChildRequest,
    responses(
        (status = 200, description = "It was taken on, or why not.", body = ChildAnswer),
        (status = 409, description = "The attempt is not the run's latest.", body = ErrorBody),
    ))]
pub(super) async fn delegate(
    State(context): Shared,
    ValidJson(request): ValidJson<ChildRequest>,
) -> Result<Json<ChildAnswer>, Refused> {
    Ok(Json(context.app.delegate(&request).await?))
}

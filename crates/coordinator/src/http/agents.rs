//! Agents.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde_json::Value;
use slipform_api::{AgentSchema, AgentView, ErrorBody, Verdict};

use super::context::Shared;
use super::errors::Refused;
use super::extract::{NameAt, ValidJson};
use super::guard::Visitor;

/// Throttle agent, by name.
#[utoipa::path(get, path = "/agents", tag = "agents",
    responses((status = 200, description = "The agents.", body = Vec<AgentView>)))]
pub(super) async fn list(State(context): Shared) -> Result<Json<Vec<AgentView>>, Refused> {
    Ok(Json(context.app.agents().await?))
}

/// An agent.
#[utoipa::path(get, path = "/agents/{name}", tag = "agents", params(("name" = String, Path)),
    responses((status = 200, description = "The agent.", body = AgentView)))]
pub(super) async fn show(State(context): Shared, NameAt(name): NameAt) -> Result<Json<AgentView>, Refused> {
    Ok(Json(context.app.agent(&name).await?))
}

/// Saves a new agent.
#[utoipa::path(post, path = "/agents", tag = "agents",
    request_body(content = AgentSchema, description = "A blueprint, with the keys that its file would have."),
    responses(
        (status = 201, description = "It was saved.", body = AgentView),
        (status = 403, description = "It has `command`, `mcp_servers` or `env`, and the token is not an administrator's.", body = ErrorBody),
        (status = 409, description = "The name is taken, or a file describes the agent.", body = ErrorBody),
        (status = 422, description = "It cannot be used.", body = ErrorBody),
    ))]
pub(super) async fn create(
    State(context): Shared,
    Extension(visitor): Extension<Visitor>,
    ValidJson(definition): ValidJson<Value>,
) -> Result<(StatusCode, Json<AgentView>), Refused> {
    Ok((StatusCode::CREATED, Json(context.app_for(visitor).create_agent(&definition).await?)))
}

/// Changes an agent: the keys that are sent replace those that it has, and null takes one away.
#[utoipa::path(patch, path = "/agents/{name}", tag = "agents", params(("name" = String, Path)),
    request_body(content = Object, description = "The keys to change."),
    responses(
        (status = 200, description = "The agent as it is now.", body = AgentView),
        (status = 409, description = "A file describes the agent.", body = ErrorBody),
        (status = 422, description = "It could not be used.", body = ErrorBody),
    ))]
pub(super) async fn change(
    State(context): Shared,
    Extension(visitor): Extension<Visitor>,
    NameAt(name): NameAt,
    ValidJson(changes): ValidJson<Value>,
) -> Result<Json<AgentView>, Refused> {
    Ok(Json(context.app_for(visitor).change_agent(&name, &changes).await?))
}

/// Deletes an agent. Runs that have begun go on with it.
#[utoipa::path(delete, path = "/agents/{name}", tag = "agents", params(("name" = String, Path)),
    responses(
        (status = 204, description = "It is gone."),
        (status = 409, description = "A file describes the agent.", body = ErrorBody),
    ))]
pub(super) async fn delete(
    State(context): Shared,
    Extension(visitor): Extension<Visitor>,
    NameAt(name): NameAt,
) -> Result<StatusCode, Refused> {
    context.app_for(visitor).delete_agent(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Checks an agent without saving it.
#[utoipa::path(post, path = "/agents/validate", tag = "agents",
    request_body(content = Object, description = "A blueprint, or what may be one."),
    responses((status = 200, description = "Whether it can be used.", body = Verdict)))]
pub(super) async fn validate(
    State(context): Shared,
    ValidJson(definition): ValidJson<Value>,
) -> Json<Verdict> {
    Json(context.app.validate_agent(&definition))
}

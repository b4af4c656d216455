//! Handlers for agents.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde_json::Value;
use slipform_api::{AgentSchema, AgentView, ErrorBody, Verdict};

use super::context::Shared;
use super::errors::ErrorResponse;
use super::extract::{NamePath, ValidJson};
use super::guard::Requester;

/// Lists every agent, sorted by name.
#[utoipa::path(get, path = "/agents", tag = "agents",
    responses((status = 200, description = "The agents.", body = Vec<AgentView>)))]
pub(super) async fn list(State(context): Shared) -> Result<Json<Vec<AgentView>>, ErrorResponse> {
    Ok(Json(context.app.agents().await?))
}

/// Returns an agent.
#[utoipa::path(get, path = "/agents/{name}", tag = "agents", params(("name" = String, Path)),
    responses((status = 200, description = "The agent.", body = AgentView)))]
pub(super) async fn show(
    State(context): Shared,
    NamePath(name): NamePath,
) -> Result<Json<AgentView>, ErrorResponse> {
    Ok(Json(context.app.agent(&name).await?))
}

/// Saves a new agent.
#[utoipa::path(post, path = "/agents", tag = "agents",
    request_body(content = AgentSchema, description = "A blueprint, with the same keys as an agent file."),
    responses(
        (status = 201, description = "The saved agent.", body = AgentView),
        (status = 403, description = "The agent has `command`, `mcp_servers` or `env`, which require an `admin` token.", body = ErrorBody),
        (status = 409, description = "The name is taken, or the agent is defined by a file.", body = ErrorBody),
        (status = 422, description = "The agent is invalid.", body = ErrorBody),
    ))]
pub(super) async fn create(
    State(context): Shared,
    Extension(requester): Extension<Requester>,
    ValidJson(definition): ValidJson<Value>,
) -> Result<(StatusCode, Json<AgentView>), ErrorResponse> {
    Ok((StatusCode::CREATED, Json(context.app_for(requester).create_agent(&definition).await?)))
}

/// Changes an agent. Sent keys replace existing ones, and null removes a key.
#[utoipa::path(patch, path = "/agents/{name}", tag = "agents", params(("name" = String, Path)),
    request_body(content = Object, description = "The keys to change."),
    responses(
        (status = 200, description = "The changed agent.", body = AgentView),
        (status = 409, description = "The agent is defined by a file or comes with the program.", body = ErrorBody),
        (status = 422, description = "The changed agent is invalid.", body = ErrorBody),
    ))]
pub(super) async fn change(
    State(context): Shared,
    Extension(requester): Extension<Requester>,
    NamePath(name): NamePath,
    ValidJson(changes): ValidJson<Value>,
) -> Result<Json<AgentView>, ErrorResponse> {
    Ok(Json(context.app_for(requester).change_agent(&name, &changes).await?))
}

/// Deletes an agent. Existing sessions keep their copy of the blueprint.
#[utoipa::path(delete, path = "/agents/{name}", tag = "agents", params(("name" = String, Path)),
    responses(
        (status = 204, description = "The agent is deleted."),
        (status = 409, description = "The agent is defined by a file or comes with the program.", body = ErrorBody),
    ))]
pub(super) async fn delete(
    State(context): Shared,
    Extension(requester): Extension<Requester>,
    NamePath(name): NamePath,
) -> Result<StatusCode, ErrorResponse> {
    context.app_for(requester).delete_agent(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Checks a blueprint without saving it.
#[utoipa::path(post, path = "/agents/validate", tag = "agents",
    request_body(content = Object, description = "The blueprint to check."),
    responses((status = 200, description = "Errors and warnings.", body = Verdict)))]
pub(super) async fn validate(
    State(context): Shared,
    ValidJson(definition): ValidJson<Value>,
) -> Json<Verdict> {
    Json(context.app.validate_agent(&definition))
}

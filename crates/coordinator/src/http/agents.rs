//! Handlers for agents.

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use slipform_api::{AgentSchema, AgentView, ErrorBody, Verdict};

use super::errors::ErrorResponse;
use super::extract::{CallerApp, NamePath, ValidJson};
use crate::app::App;

/// Lists every agent, sorted by name.
#[utoipa::path(get, path = "/agents", tag = "agents",
    responses((status = 200, description = "The agents.", body = Vec<AgentView>)))]
pub(super) async fn list(CallerApp(app): CallerApp) -> Result<Json<Vec<AgentView>>, ErrorResponse> {
    Ok(Json(app.agents().await?))
}

/// Returns an agent.
#[utoipa::path(get, path = "/agents/{name}", tag = "agents", params(("name" = String, Path)),
    responses((status = 200, description = "The agent. `ETag` is its version, for agents that the API can change.", body = AgentView)))]
pub(super) async fn show(
    CallerApp(app): CallerApp,
    NamePath(name): NamePath,
) -> Result<Response, ErrorResponse> {
    respond(&app, StatusCode::OK, &name, app.agent(&name).await?).await
}

/// Answers with an agent and its version.
async fn respond(
    app: &App,
    status: StatusCode,
    name: &str,
    agent: AgentView,
) -> Result<Response, ErrorResponse> {
    let version = app.agent_version(name).await?;
    let version = version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok());
    let mut response = (status, Json(agent)).into_response();
    if let Some(version) = version {
        response.headers_mut().insert(header::ETAG, version);
    }
    Ok(response)
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
    CallerApp(app): CallerApp,
    ValidJson(definition): ValidJson<Value>,
) -> Result<Response, ErrorResponse> {
    let agent = app.create_agent(&definition).await?;
    let name = agent.name.clone();
    respond(&app, StatusCode::CREATED, &name, agent).await
}

/// Changes an agent by a JSON Merge Patch (RFC 7396): objects are merged, null removes a key, and other values replace.
#[utoipa::path(patch, path = "/agents/{name}", tag = "agents",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header,
        description = "The `ETag` of the version to change; `*` for any.")),
    request_body(content = Object, description = "The keys to change."),
    responses(
        (status = 200, description = "The changed agent.", body = AgentView),
        (status = 409, description = "The agent is defined by a file or comes with the program.", body = ErrorBody),
        (status = 412, description = "The agent has changed since the version that `If-Match` names.", body = ErrorBody),
        (status = 422, description = "The changed agent is invalid.", body = ErrorBody),
    ))]
pub(super) async fn change(
    CallerApp(app): CallerApp,
    NamePath(name): NamePath,
    headers: HeaderMap,
    ValidJson(changes): ValidJson<Value>,
) -> Result<Response, ErrorResponse> {
    let expected = headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok()).map(str::trim);
    let version = expected.filter(|expected| *expected != "*").map(|expected| expected.trim_matches('"'));
    let agent = app.change_agent(&name, &changes, version).await?;
    respond(&app, StatusCode::OK, &name, agent).await
}

/// Deletes an agent. Existing sessions keep their copy of the blueprint.
#[utoipa::path(delete, path = "/agents/{name}", tag = "agents", params(("name" = String, Path)),
    responses(
        (status = 204, description = "The agent is deleted."),
        (status = 409, description = "The agent is defined by a file or comes with the program.", body = ErrorBody),
    ))]
pub(super) async fn delete(
    CallerApp(app): CallerApp,
    NamePath(name): NamePath,
) -> Result<StatusCode, ErrorResponse> {
    app.delete_agent(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Checks a blueprint without saving it.
#[utoipa::path(post, path = "/agents/validate", tag = "agents",
    request_body(content = Object, description = "The blueprint to check."),
    responses((status = 200, description = "Errors and warnings.", body = Verdict)))]
pub(super) async fn validate(
    CallerApp(app): CallerApp,
    ValidJson(definition): ValidJson<Value>,
) -> Result<Json<Verdict>, ErrorResponse> {
    Ok(Json(app.validate_agent(&definition).await?))
}

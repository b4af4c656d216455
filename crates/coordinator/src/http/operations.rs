//! Operations.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use slipform_api::{BackendView, Health, Readiness, RunnerView, StatsRow};
use slipform_store::StatsFilter;
use utoipa::IntoParams;

use super::context::Shared;
use super::errors::Refused;
use super::extract::ValidQuery;
use super::guard::Visitor;

/// How Prometheus calls its text.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "It does.", body = Health)))]
pub(super) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Whether requests can be served. Without a token, where one is needed, it is not said why not.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses(
        (status = 200, description = "They can.", body = Readiness),
        (status = 503, description = "They cannot, for now.", body = Readiness),
    ))]
pub(super) async fn readyz(
    State(context): Shared,
    Extension(visitor): Extension<Visitor>,
) -> (StatusCode, Json<Readiness>) {
    let mut readiness = context.app.readiness(context.is_draining()).await;
    if visitor == Visitor::Stranger {
        readiness.files.clear();
        if readiness.database != "ok" {
            "unavailable".clone_into(&mut readiness.database);
        }
    }
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness))
}

/// Runners that were heard of lately.
#[utoipa::path(get, path = "/runners", tag = "operations",
    responses((status = 200, description = "The runners.", body = Vec<RunnerView>)))]
pub(super) async fn runners(State(context): Shared) -> Result<Json<Vec<RunnerView>>, Refused> {
    Ok(Json(context.app.runners().await?))
}

/// Backends that those runners have.
#[utoipa::path(get, path = "/backends", tag = "operations",
    responses((status = 200, description = "The backends.", body = Vec<BackendView>)))]
pub(super) async fn backends(State(context): Shared) -> Result<Json<Vec<BackendView>>, Refused> {
    Ok(Json(context.app.backends().await?))
}

/// Whose figures are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StatsQuery {
    /// Those of an agent.
    agent: Option<String>,
}

/// How the agents did whose runs have ended.
#[utoipa::path(get, path = "/stats", tag = "operations", params(StatsQuery),
    responses((status = 200, description = "A row for each agent and backend.", body = Vec<StatsRow>)))]
pub(super) async fn stats(
    State(context): Shared,
    ValidQuery(query): ValidQuery<StatsQuery>,
) -> Result<Json<Vec<StatsRow>>, Refused> {
    let filter = StatsFilter { agent_name: query.agent, since: None };
    Ok(Json(context.app.stats(filter).await?))
}

/// Figures for a monitoring system.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "The text format of Prometheus.", content_type = "text/plain", body = String)))]
pub(super) async fn metrics(
    State(context): Shared,
) -> Result<([(HeaderName, &'static str); 1], String), Refused> {
    Ok(([(header::CONTENT_TYPE, METRICS_TYPE)], context.app.metrics_text().await?))
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", tag = "operations",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object)))]
pub(super) async fn description() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], super::openapi::text())
}

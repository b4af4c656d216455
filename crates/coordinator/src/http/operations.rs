//! Handlers for health, runners, backends and statistics.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::IntoResponse;
use slipform_api::{
    BackendView, GatewayRequestPage, GatewayRequestQuery, Health, Identity, Readiness, RunnerView,
    StatsQuery, StatsRow, TimelineQuery, TimelineRow, ViolationsRow,
};

use super::context::Shared;
use super::errors::ErrorResponse;
use super::extract::{CallerApp, ValidQuery};
use super::guard::Requester;

/// Content type of the Prometheus text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns 200 while the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "The process is alive.", body = Health)))]
pub(super) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Reports whether the server accepts requests. Details require a token if the server needs one.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses(
        (status = 200, description = "The server accepts requests.", body = Readiness),
        (status = 503, description = "The database is unavailable or the server is shutting down.", body = Readiness),
    ))]
pub(super) async fn readyz(
    State(context): Shared,
    Extension(requester): Extension<Requester>,
) -> (StatusCode, Json<Readiness>) {
    let mut readiness = context.app.readiness(context.is_draining()).await;
    if requester == Requester::Anonymous {
        readiness.files.clear();
        if readiness.database != "ok" {
            "unavailable".clone_into(&mut readiness.database);
        }
    }
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness))
}

/// Lists the runners seen in the last minute.
#[utoipa::path(get, path = "/runners", tag = "operations",
    responses((status = 200, description = "The runners.", body = Vec<RunnerView>)))]
pub(super) async fn runners(CallerApp(app): CallerApp) -> Result<Json<Vec<RunnerView>>, ErrorResponse> {
    Ok(Json(app.runners().await?))
}

/// Lists the backends of these runners.
#[utoipa::path(get, path = "/backends", tag = "operations",
    responses((status = 200, description = "The backends.", body = Vec<BackendView>)))]
pub(super) async fn backends(CallerApp(app): CallerApp) -> Result<Json<Vec<BackendView>>, ErrorResponse> {
    Ok(Json(app.backends().await?))
}

/// Returns statistics of ended runs.
#[utoipa::path(get, path = "/stats", tag = "operations", params(StatsQuery),
    responses((status = 200, description = "One row per agent and backend.", body = Vec<StatsRow>)))]
pub(super) async fn stats(
    CallerApp(app): CallerApp,
    ValidQuery(query): ValidQuery<StatsQuery>,
) -> Result<Json<Vec<StatsRow>>, ErrorResponse> {
    Ok(Json(app.stats(query).await?))
}

/// Returns figures of ended runs per interval.
#[utoipa::path(get, path = "/stats/timeline", tag = "operations", params(TimelineQuery),
    responses((status = 200, description = "One row per interval, oldest first.", body = Vec<TimelineRow>)))]
pub(super) async fn timeline(
    CallerApp(app): CallerApp,
    ValidQuery(query): ValidQuery<TimelineQuery>,
) -> Result<Json<Vec<TimelineRow>>, ErrorResponse> {
    Ok(Json(app.timeline(query).await?))
}

/// Returns how often each place of results violated its contract.
#[utoipa::path(get, path = "/stats/violations", tag = "operations", params(StatsQuery),
    responses((status = 200, description = "One row per place and backend, most frequent first.", body = Vec<ViolationsRow>)))]
pub(super) async fn violations(
    CallerApp(app): CallerApp,
    ValidQuery(query): ValidQuery<StatsQuery>,
) -> Result<Json<Vec<ViolationsRow>>, ErrorResponse> {
    Ok(Json(app.violations(query).await?))
}

/// Lists requests that the gateway answered without a stored run, newest first.
#[utoipa::path(get, path = "/gateway/requests", tag = "operations", params(GatewayRequestQuery),
    responses((status = 200, description = "A page of requests.", body = GatewayRequestPage)))]
pub(super) async fn gateway_requests(
    CallerApp(app): CallerApp,
    ValidQuery(query): ValidQuery<GatewayRequestQuery>,
) -> Result<Json<GatewayRequestPage>, ErrorResponse> {
    Ok(Json(app.gateway_requests(query).await?))
}

/// Returns the name and scope of the request's token.
#[utoipa::path(get, path = "/whoami", tag = "operations",
    responses((status = 200, description = "The sender of the request.", body = Identity)))]
pub(super) async fn whoami(
    State(context): Shared,
    Extension(requester): Extension<Requester>,
    CallerApp(app): CallerApp,
) -> Result<Json<Identity>, ErrorResponse> {
    let token_required = context.options.needs_token;
    let Requester::Token(grant) = requester else {
        let scope = "local".to_owned();
        return Ok(Json(Identity { name: None, scope, agents: None, token_required }));
    };
    let tokens = app.tokens().await?;
    let known = tokens.into_iter().find(|token| token.token_id == grant.token_id);
    // The token that a server writes for its own machine is not in the store.
    let name = known.map_or_else(|| grant.token_id.clone(), |token| token.name);
    let (scope, agents) = (grant.scope.name().to_owned(), grant.agents.clone());
    Ok(Json(Identity { name: Some(name), scope, agents, token_required }))
}

/// Returns metrics for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "Metrics in Prometheus text format.", content_type = "text/plain", body = String)))]
pub(super) async fn metrics(
    CallerApp(app): CallerApp,
) -> Result<([(HeaderName, &'static str); 1], String), ErrorResponse> {
    Ok(([(header::CONTENT_TYPE, METRICS_TYPE)], app.metrics_text().await?))
}

/// Returns this document.
#[utoipa::path(get, path = "/openapi.json", tag = "operations",
    responses((status = 200, description = "The OpenAPI 3.1 document.", body = Object)))]
pub(super) async fn description() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], super::openapi::text())
}

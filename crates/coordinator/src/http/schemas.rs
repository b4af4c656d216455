//! Handlers for the schema registry.

use axum::Json;
use axum::http::StatusCode;
use slipform_api::{ErrorBody, SchemaRequest, SchemaSummary, SchemaView, ValidateSchemaRequest, Verdict};

use super::errors::ErrorResponse;
use super::extract::{CallerApp, NamePath, ValidJson};

/// Lists every registered schema, sorted by name.
#[utoipa::path(get, path = "/schemas", tag = "schemas",
    responses((status = 200, description = "The schemas.", body = Vec<SchemaSummary>)))]
pub(super) async fn list(CallerApp(app): CallerApp) -> Result<Json<Vec<SchemaSummary>>, ErrorResponse> {
    Ok(Json(app.schemas().await?))
}

/// Returns a registered schema.
#[utoipa::path(get, path = "/schemas/{name}", tag = "schemas", params(("name" = String, Path)),
    responses((status = 200, description = "The schema.", body = SchemaView)))]
pub(super) async fn show(
    CallerApp(app): CallerApp,
    NamePath(name): NamePath,
) -> Result<Json<SchemaView>, ErrorResponse> {
    Ok(Json(app.schema(&name).await?))
}

/// Registers a schema. Registered schemas are immutable.
#[utoipa::path(post, path = "/schemas", tag = "schemas", request_body = SchemaRequest,
    responses(
        (status = 201, description = "The registered schema.", body = SchemaView),
        (status = 409, description = "The name is taken, or the schema is defined by a file.", body = ErrorBody),
        (status = 422, description = "The schema is invalid.", body = ErrorBody),
    ))]
pub(super) async fn add(
    CallerApp(app): CallerApp,
    ValidJson(request): ValidJson<SchemaRequest>,
) -> Result<(StatusCode, Json<SchemaView>), ErrorResponse> {
    Ok((StatusCode::CREATED, Json(app.add_schema(&request).await?)))
}

/// Removes a schema from the registry.
#[utoipa::path(delete, path = "/schemas/{name}", tag = "schemas", params(("name" = String, Path)),
    responses(
        (status = 204, description = "The schema is removed."),
        (status = 409, description = "The schema is defined by a file or comes with the program.", body = ErrorBody),
    ))]
pub(super) async fn remove(
    CallerApp(app): CallerApp,
    NamePath(name): NamePath,
) -> Result<StatusCode, ErrorResponse> {
    app.remove_schema(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Checks a schema without registering it.
#[utoipa::path(post, path = "/schemas/validate", tag = "schemas", request_body = ValidateSchemaRequest,
    responses((status = 200, description = "Errors and warnings.", body = Verdict)))]
pub(super) async fn validate(
    CallerApp(app): CallerApp,
    ValidJson(request): ValidJson<ValidateSchemaRequest>,
) -> Result<Json<Verdict>, ErrorResponse> {
    Ok(Json(app.validate_schema(&request.schema).await?))
}

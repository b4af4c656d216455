//! The registry of schemas.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use slipform_api::{ErrorBody, SchemaRequest, SchemaView, ValidateSchemaRequest, Verdict};

use super::context::Shared;
use super::errors::Refused;
use super::extract::{NameAt, ValidJson};

/// Throttle registered schema, by name.
#[utoipa::path(get, path = "/schemas", tag = "schemas",
    responses((status = 200, description = "The schemas.", body = Vec<SchemaView>)))]
pub(super) async fn list(State(context): Shared) -> Result<Json<Vec<SchemaView>>, Refused> {
    Ok(Json(context.app.schemas().await?))
}

/// A registered schema.
#[utoipa::path(get, path = "/schemas/{name}", tag = "schemas", params(("name" = String, Path)),
    responses((status = 200, description = "The schema.", body = SchemaView)))]
pub(super) async fn show(State(context): Shared, NameAt(name): NameAt) -> Result<Json<SchemaView>, Refused> {
    Ok(Json(context.app.schema(&name).await?))
}

/// Registers a schema. What is registered is never changed.
#[utoipa::path(post, path = "/schemas", tag = "schemas", request_body = SchemaRequest,
    responses(
        (status = 201, description = "It was registered.", body = SchemaView),
        (status = 409, description = "The name is taken, or a file describes the schema.", body = ErrorBody),
        (status = 422, description = "It cannot be used.", body = ErrorBody),
    ))]
pub(super) async fn add(
    State(context): Shared,
    ValidJson(request): ValidJson<SchemaRequest>,
) -> Result<(StatusCode, Json<SchemaView>), Refused> {
    Ok((StatusCode::CREATED, Json(context.app.add_schema(&request).await?)))
}

/// Takes a schema out of the registry.
#[utoipa::path(delete, path = "/schemas/{name}", tag = "schemas", params(("name" = String, Path)),
    responses(
        (status = 204, description = "It is gone."),
        (status = 409, description = "A file describes the schema.", body = ErrorBody),
    ))]
pub(super) async fn remove(State(context): Shared, NameAt(name): NameAt) -> Result<StatusCode, Refused> {
    context.app.remove_schema(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Checks a schema without registering it.
#[utoipa::path(post, path = "/schemas/validate", tag = "schemas", request_body = ValidateSchemaRequest,
    responses((status = 200, description = "Whether it can be used.", body = Verdict)))]
pub(super) async fn validate(
    State(context): Shared,
    ValidJson(request): ValidJson<ValidateSchemaRequest>,
) -> Json<Verdict> {
    Json(context.app.validate_schema(&request.schema))
}

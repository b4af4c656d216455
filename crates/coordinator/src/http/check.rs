//! Extraction and validation without a model.

use axum::Json;
use axum::extract::State;
use slipform_api::{CheckRequest, CheckView, ErrorBody};

use super::context::Shared;
use super::errors::Refused;
use super::extract::ValidJson;

/// Holds a text against a schema.
#[utoipa::path(post, path = "/check", tag = "check", request_body = CheckRequest,
    responses(
        (status = 200, description = "What was found.", body = CheckView),
        (status = 404, description = "There is no such schema.", body = ErrorBody),
        (status = 422, description = "The schema cannot be used.", body = ErrorBody),
    ))]
pub(super) async fn check(
    State(context): Shared,
    ValidJson(request): ValidJson<CheckRequest>,
) -> Result<Json<CheckView>, Refused> {
    Ok(Json(context.app.check(request).await?))
}

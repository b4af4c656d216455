//! Handler for extraction and validation without a model.

use axum::Json;
use slipform_api::{CheckRequest, CheckView, ErrorBody};

use super::errors::ErrorResponse;
use super::extract::{CallerApp, ValidJson};

/// Extracts JSON from a text and validates it.
#[utoipa::path(post, path = "/check", tag = "check", request_body = CheckRequest,
    responses(
        (status = 200, description = "The extracted JSON and its validation.", body = CheckView),
        (status = 404, description = "Unknown schema name.", body = ErrorBody),
        (status = 422, description = "The schema is invalid.", body = ErrorBody),
    ))]
pub(super) async fn check(
    CallerApp(app): CallerApp,
    ValidJson(request): ValidJson<CheckRequest>,
) -> Result<Json<CheckView>, ErrorResponse> {
    Ok(Json(app.check(request).await?))
}

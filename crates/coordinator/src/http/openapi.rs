//! Generates the OpenAPI document from the code.

use std::sync::LazyLock;

use slipform_api::ErrorBody;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

use super::router;

/// The parts of the document that belong to no handler.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Slipform",
        description = "Runs agents whose results satisfy a JSON Schema. Every error response is an ErrorBody.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(ErrorBody))
)]
struct Document;

/// Name of the security scheme.
const BEARER: &str = "bearer";

/// Returns the OpenAPI document of all routes.
pub fn openapi() -> OpenApi {
    let mut all = Document::openapi();
    for routes in [router::short(), router::long()] {
        all.merge(routes.into_openapi());
    }
    all.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
        "A token from `slipform token create`. Not required if the server listens on a loopback address.",
    ));
    let components = all.components.get_or_insert_default();
    components.add_security_scheme(BEARER, SecurityScheme::Http(scheme.build()));
    let nothing = SecurityRequirement::default();
    all.security = Some(vec![nothing, SecurityRequirement::new(BEARER, Vec::<String>::new())]);
    for (path, item) in &mut all.paths.paths {
        let operations =
            [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete].into_iter().flatten();
        for operation in operations {
            prefix_operation_id(operation);
            add_error_responses(path, operation);
        }
    }
    all
}

/// Returns the document as JSON. Generated once.
pub(super) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| openapi().to_json().unwrap_or_default());
    &TEXT
}

/// Prefixes the operation id with its tag, because several tags have a `list`.
fn prefix_operation_id(operation: &mut Operation) {
    let subject = operation.tags.iter().flatten().next();
    if let (Some(subject), Some(handler)) = (subject, &operation.operation_id) {
        operation.operation_id = Some(format!("{subject}_{handler}"));
    }
}

/// Adds the error responses that follow from the path and the parameters. Handlers declare only their own.
fn add_error_responses(path: &str, operation: &mut Operation) {
    let takes = |place: ParameterIn| {
        operation
            .parameters
            .iter()
            .flatten()
            .any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == place))
    };
    let has_body = operation.request_body.is_some();
    let is_probe = matches!(path, "/healthz" | "/readyz");
    let errors = [
        (
            has_body || takes(ParameterIn::Query) || takes(ParameterIn::Header),
            "400",
            "The request is malformed.",
        ),
        (!is_probe, "401", "The token is missing, unknown or revoked."),
        (true, "403", "The token's scope does not allow the request, or its host or origin is not allowed."),
        (takes(ParameterIn::Path), "404", "Not found."),
        (has_body, "413", "The body exceeds the size limit."),
        (has_body, "415", "The content type is not application/json."),
        (!is_probe, "429", "Too many requests; retry later."),
        (true, "500", "Internal error."),
        (true, "503", "The database is unavailable or the server is shutting down; retry later."),
    ];
    for (can_happen, status, description) in errors {
        let known = &mut operation.responses.responses;
        if can_happen && !known.contains_key(status) {
            known.insert(status.to_owned(), RefOr::T(error_response(description)));
        }
    }
}

fn error_response(description: &str) -> Response {
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
    ResponseBuilder::new().description(description).content("application/json", body).build()
}

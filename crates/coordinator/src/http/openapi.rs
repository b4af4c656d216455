//! The description of the API for other languages, generated from the code.

use std::sync::LazyLock;

use slipform_api::ErrorBody;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

use super::router;

/// What is true of the whole API.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Slipform",
        description = "Runs agents whose results satisfy their schema. Errors are always an ErrorBody.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(ErrorBody))
)]
struct Whole;

/// The name of the way in which tokens are shown.
const BEARER: &str = "bearer";

/// Describes every address, what it takes and what it answers.
pub fn openapi() -> OpenApi {
    let mut all = Whole::openapi();
    for routes in [router::short(), router::long()] {
        all.merge(routes.into_openapi());
    }
    all.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
        "A token made by `slipform token create`. Not needed where the server listens on this machine only.",
    ));
    let components = all.components.get_or_insert_default();
    components.add_security_scheme(BEARER, SecurityScheme::Http(scheme.build()));
    let nothing = SecurityRequirement::default();
    all.security = Some(vec![nothing, SecurityRequirement::new(BEARER, Vec::<String>::new())]);
    for (path, item) in &mut all.paths.paths {
        let operations =
            [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete].into_iter().flatten();
        for operation in operations {
            name(operation);
            add_refusals(path, operation);
        }
    }
    all
}

/// The same as text. It never changes while the program runs.
pub(super) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| openapi().to_json().unwrap_or_default());
    &TEXT
}

/// Names an operation after its subject and its handler: several subjects have a `list`.
fn name(operation: &mut Operation) {
    let subject = operation.tags.iter().flatten().next();
    if let (Some(subject), Some(handler)) = (subject, &operation.operation_id) {
        operation.operation_id = Some(format!("{subject}_{handler}"));
    }
}

/// Adds the refusals that follow from where an address is and what it takes; handlers name only their own.
fn add_refusals(path: &str, operation: &mut Operation) {
    let takes = |place: ParameterIn| {
        operation
            .parameters
            .iter()
            .flatten()
            .any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == place))
    };
    let has_body = operation.request_body.is_some();
    let is_probe = matches!(path, "/healthz" | "/readyz");
    let refusals = [
        (
            has_body || takes(ParameterIn::Query) || takes(ParameterIn::Header),
            "400",
            "The request is not one.",
        ),
        (!is_probe, "401", "A token is needed, or is not known."),
        (true, "403", "The token may not do this, or the request comes from where it may not."),
        (takes(ParameterIn::Path), "404", "There is none."),
        (has_body, "413", "The body is too long."),
        (has_body, "415", "The body does not say that it is JSON."),
        (!is_probe, "429", "Too much at once; try again later."),
        (true, "500", "A fault of the server."),
        (true, "503", "The database does not answer, or the server is going down; try again later."),
    ];
    for (can_happen, status, description) in refusals {
        let known = &mut operation.responses.responses;
        if can_happen && !known.contains_key(status) {
            known.insert(status.to_owned(), RefOr::T(refusal(description)));
        }
    }
}

fn refusal(description: &str) -> Response {
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
    ResponseBuilder::new().description(description).content("application/json", body).build()
}

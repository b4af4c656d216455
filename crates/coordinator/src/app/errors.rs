//! Converts errors of lower layers into API errors.

use serde_json::json;
use slipform_api::{Code, Error};
use slipform_types::closest;

/// Converts an error of the store.
pub(super) fn store(error: slipform_store::Error) -> Error {
    use slipform_store::Error as E;
    let code = match error {
        E::Invalid(_) => Code::InvalidRequest,
        E::Unavailable(_) | E::Locked(_) => Code::Unavailable,
        E::Address(_) | E::Unsuitable(_) | E::Damaged(_) => Code::Internal,
    };
    Error::new(code, error.to_string())
}

/// Converts an error from resolving a contract.
pub(super) fn contract(error: &slipform_agents::Error) -> Error {
    use slipform_agents::Error as E;
    match error {
        E::OutputSchemaConflict { agent } => {
            Error::new(Code::OutputSchemaConflict, error.to_string()).with(json!({"agent_name": agent}))
        }
        E::Schema { origin, source } => {
            let details =
                json!({"origin": origin, "path": schema_path(source), "reason": source.to_string()});
            Error::new(Code::InvalidSchema, format!("{error}: {source}")).with(details)
        }
        _ => Error::new(Code::InvalidRequest, error.to_string()),
    }
}

/// The error for a schema that a caller sent and that cannot be used.
pub(super) fn invalid_schema(error: &slipform_schema::Error) -> Error {
    let details = json!({"path": schema_path(error), "reason": error.to_string()});
    Error::new(Code::InvalidSchema, format!("invalid schema: {error}")).with(details)
}

/// Returns the JSONPath of a schema error.
pub(super) fn schema_path(error: &slipform_schema::Error) -> String {
    use slipform_schema::Error as E;
    match error {
        E::Invalid { path, .. }
        | E::Reference { path, .. }
        | E::Cycle { path }
        | E::TooMuchMemory { path, .. } => path.clone(),
        E::TooLarge { .. } => "$".to_owned(),
    }
}

/// Returns the message of a schema error without its path.
pub(super) fn schema_message(error: &slipform_schema::Error) -> String {
    let (text, place) = (error.to_string(), format!("{}: ", schema_path(error)));
    text.strip_prefix(&place).map(str::to_owned).unwrap_or(text)
}

/// The error for an unknown agent. `details` let callers phrase their own advice.
pub(super) fn no_agent(name: &str, known: &[String]) -> Error {
    let meant = closest(name, known.iter().map(String::as_str));
    let advice = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("available: {}", known.join(", ")),
    };
    let details = json!({"agent_name": name, "suggestion": meant, "available": known});
    Error::new(Code::AgentNotFound, format!("agent `{name}` not found; {advice}")).with(details)
}

/// The reason why a delegation to an unknown agent was refused, for a model.
pub(super) fn no_agent_reason(name: &str, known: &[String]) -> String {
    if known.is_empty() {
        format!("there is no agent '{name}', and no other either")
    } else {
        format!("there is no agent '{name}'; there are: {}", known.join(", "))
    }
}

/// The error for an unknown schema. A model may read it, as the reason why a delegation was refused.
pub(super) fn no_schema(name: &str) -> Error {
    Error::new(
        Code::SchemaNotFound,
        format!("there is no schema '{name}'; GET /schemas lists those there are"),
    )
}

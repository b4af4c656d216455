//! The summary of a request that the gateway answered without a stored run.

use serde::{Deserialize, Serialize};

use crate::Tokens;

/// The name under which statistics show the requests of the gateway. No agent can have it.
pub const GATEWAY: &str = "(gateway)";

/// The summary of a request that the gateway answered without a stored run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayRequest {
    /// The id in the response's `x-request-id`.
    pub request_id: String,
    /// The API token that sent the request; `None` without one.
    pub created_by: Option<String>,
    /// The model as the client named it.
    pub requested_model: String,
    /// The backend of the last call; `None` if no call was made.
    pub backend: Option<String>,
    /// The model of that call.
    pub model: Option<String>,
    /// The code of the error that the client got; `None` for a response with status 200.
    pub error_type: Option<String>,
    /// The message of that error, shortened.
    pub error_message: Option<String>,
    /// How the model was asked for JSON; `None` without a contract.
    pub strategy: Option<String>,
    /// Whether the response or the arguments of its calls had to satisfy a schema.
    pub has_contract: bool,
    /// Whether the response was streamed.
    pub is_streamed: bool,
    /// The requests to models.
    pub calls: u32,
    /// The calls that repeated another because its reply was rejected.
    pub retry_count: u32,
    /// The repairs of the accepted reply.
    pub repairs: u32,
    /// The moves to another backend.
    pub escalations: u32,
    /// The tokens of all calls.
    pub tokens: Tokens,
    /// The time from the request to the end of its response, in milliseconds.
    pub duration_ms: u64,
}

//! What the gateway needs of the coordinator that mounts it, and the views of its requests.

use serde::{Deserialize, Serialize};
use slipform_types::{GatewayRequest, RunVerdict, Tokens};
use utoipa::{IntoParams, ToSchema};

/// Who sent a request to a router that a coordinator's server mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RequestSender {
    /// The id of the API token; `None` without one.
    pub token_id: Option<String>,
    /// Whether the token may only run certain agents, and choose no model.
    pub is_limited_to_agents: bool,
    /// The most requests per minute; `None` without a limit.
    pub requests_per_minute: Option<u32>,
    /// The tokens per minute after which requests are refused; `None` without a limit.
    pub tokens_per_minute: Option<u32>,
}

/// Keeps the summaries of requests that the gateway answered without a stored run.
pub trait RequestLog: Send + Sync {
    /// Keeps a summary. Returns at once; the summary is stored later.
    fn record(&self, request: GatewayRequest);

    /// Counts a request that joined the one that it repeats.
    fn joined(&self) {}
}

/// Discards summaries.
impl RequestLog for () {
    fn record(&self, _: GatewayRequest) {}
}

/// Query parameters of `GET /gateway/requests`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GatewayRequestQuery {
    /// Only requests whose last call used this backend.
    pub backend: Option<String>,
    /// Only requests with this status.
    #[param(inline)]
    pub status: Option<GatewayRequestStatus>,
    /// `next` of the previous page.
    pub after: Option<String>,
    /// Maximum number of requests, from 1 to 1,000; default 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<i64>,
}

/// How a request of the gateway ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GatewayRequestStatus {
    /// The response had the status 200.
    Completed,
    /// The client got an error.
    Failed,
}

/// A page of the gateway's requests, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GatewayRequestPage {
    /// The requests.
    pub requests: Vec<GatewayRequestView>,
    /// Cursor of the next page; null on the last one.
    pub next: Option<String>,
}

/// A request that the gateway answered without a stored run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GatewayRequestView {
    /// The id in the response's `x-request-id`.
    pub request_id: String,
    /// The API token that sent the request; null without one.
    pub created_by: Option<String>,
    /// The model as the client named it.
    pub requested_model: String,
    /// Backend of the last call; null if no call was made.
    pub backend: Option<String>,
    /// Model of that call.
    pub model: Option<String>,
    /// How the request ended.
    pub status: GatewayRequestStatus,
    /// How the answer came to be; null for failed requests.
    #[schema(value_type = Option<crate::openapi::RunVerdictName>)]
    pub verdict: Option<RunVerdict>,
    /// Code of the error that the client got; null for completed requests.
    pub error_type: Option<String>,
    /// Message of that error, shortened.
    pub error_message: Option<String>,
    /// How the model was asked for JSON; null without a schema.
    pub strategy: Option<String>,
    /// Whether the answer, or the arguments of its calls, had to satisfy a schema.
    pub has_contract: bool,
    /// Whether the response was streamed.
    pub is_streamed: bool,
    /// Requests to models.
    pub calls: u32,
    /// Calls that repeated another because its reply was rejected.
    pub retry_count: u32,
    /// Repairs of the accepted reply.
    pub repairs: u32,
    /// Tokens of all calls.
    #[schema(value_type = crate::openapi::TokensSchema)]
    pub tokens: Tokens,
    /// Time from the request to the end of its response, in milliseconds.
    pub duration_ms: u64,
    /// When the gateway received the request.
    pub started_at: String,
    /// When its response ended.
    pub finished_at: String,
}

//! Requests of the gateway.

use std::sync::Arc;

use slipform_types::GatewayRequest;

use super::Millis;

/// A request of the gateway that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedRequest {
    /// The summary.
    pub request: Arc<GatewayRequest>,
    /// The time since its end.
    pub age_ms: Millis,
}

/// A stored request of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// The summary.
    pub request: GatewayRequest,
    /// When the gateway received it.
    pub started_at: Millis,
    /// When its response ended.
    pub finished_at: Millis,
}

/// Which requests of the gateway to list. `None` disables a filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Requests of this API token.
    pub owner: Option<String>,
    /// Requests whose last call used this backend.
    pub backend: Option<String>,
    /// Requests that failed, or that did not.
    pub has_failed: Option<bool>,
}

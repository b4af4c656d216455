//! Lists the requests of the gateway.

use slipform_api::{
    Error, GatewayRequestPage, GatewayRequestQuery, GatewayRequestStatus, GatewayRequestView,
};
use slipform_store::{RequestFilter, RequestRecord};
use slipform_types::{RunVerdict, timestamp};

use super::paging::page;
use super::{App, errors};

impl App {
    /// Returns a page of the gateway's requests, newest first.
    ///
    /// # Errors
    /// Returns `InvalidRequest` for an invalid cursor or size, and fails if the store is unavailable.
    pub async fn gateway_requests(&self, query: GatewayRequestQuery) -> Result<GatewayRequestPage, Error> {
        let page = page(query.after, query.limit)?;
        let filter = RequestFilter {
            owner: self.authority.only_owner().map(str::to_owned),
            backend: query.backend,
            has_failed: query.status.map(|status| status == GatewayRequestStatus::Failed),
        };
        let listed = self.store().gateway_requests(filter, page).await.map_err(errors::store)?;
        Ok(GatewayRequestPage { requests: listed.items.into_iter().map(view).collect(), next: listed.next })
    }
}

fn view(record: RequestRecord) -> GatewayRequestView {
    let RequestRecord { request, started_at, finished_at } = record;
    let has_failed = request.error_type.is_some();
    let verdict = if request.escalations > 0 {
        RunVerdict::Escalated
    } else if request.retry_count > 0 {
        RunVerdict::Retried
    } else if request.repairs > 0 {
        RunVerdict::Repaired
    } else {
        RunVerdict::FirstPass
    };
    GatewayRequestView {
        request_id: request.request_id,
        created_by: request.created_by,
        requested_model: request.requested_model,
        backend: request.backend,
        model: request.model,
        status: if has_failed { GatewayRequestStatus::Failed } else { GatewayRequestStatus::Completed },
        verdict: (!has_failed && request.has_contract).then_some(verdict),
        error_type: request.error_type,
        error_message: request.error_message,
        strategy: request.strategy,
        has_contract: request.has_contract,
        is_streamed: request.is_streamed,
        calls: request.calls,
        retry_count: request.retry_count,
        repairs: request.repairs,
        tokens: request.tokens,
        duration_ms: request.duration_ms,
        started_at: timestamp(started_at),
        finished_at: timestamp(finished_at),
    }
}

//! Records how a request ended: its summary for statistics, and what it takes from the sender's budget.

use std::sync::Arc;
use std::time::Instant;

use slipform_api::{RequestLog, RequestSender};
use slipform_types::{GatewayRequest, Receipt, RunId};

use crate::budget::Budgets;
use crate::chat::request::ChatRequest;
use crate::direct::ChoiceResult;
use crate::usage::UsageMeter;

/// The error of a request whose client has disconnected.
const CANCELLED: &str = "cancelled";

/// The tier of a backend that a client names itself.
const NAMED_TIER: &str = "default";

/// Records the end of a request when it is dropped: as it was finished, or as cancelled.
pub(crate) struct SummaryGuard {
    log: Option<Arc<dyn RequestLog>>,
    budgets: Arc<Budgets>,
    sender: RequestSender,
    usage: Arc<UsageMeter>,
    started: Instant,
    request: GatewayRequest,
}

impl SummaryGuard {
    /// Begins the record of a request. Without a log only the budget is updated.
    pub(crate) fn begin(
        chat: &ChatRequest,
        run_id: &RunId,
        sender: RequestSender,
        log: Option<Arc<dyn RequestLog>>,
        budgets: Arc<Budgets>,
    ) -> SummaryGuard {
        let request = GatewayRequest {
            request_id: run_id.to_string(),
            created_by: sender.token_id.clone(),
            requested_model: chat.model.clone(),
            error_type: Some(CANCELLED.to_owned()),
            error_message: Some("the client disconnected".to_owned()),
            has_contract: chat.contract.is_some() || chat.has_tools,
            is_streamed: chat.stream,
            ..GatewayRequest::default()
        };
        SummaryGuard { log, budgets, sender, usage: Arc::default(), started: Instant::now(), request }
    }

    /// Returns what counts the calls and tokens of the request.
    pub(crate) fn usage(&self) -> Arc<UsageMeter> {
        self.usage.clone()
    }

    /// Ends the request: the first error is the error of the request.
    pub(crate) fn finish(mut self, results: &[ChoiceResult]) {
        let error = results.iter().find_map(|result| result.as_ref().err()).map(|failed| &failed.error);
        self.request.error_type = error.map(|error| error.code.to_owned());
        self.request.error_message = error.map(|error| error.message.clone());
        for result in results {
            match result {
                Ok(answer) => self.add_receipt(&answer.receipt),
                Err(failed) => self.add_receipt(&failed.receipt),
            }
        }
    }

    fn add_receipt(&mut self, receipt: &Receipt) {
        let request = &mut self.request;
        if let Some(rung) = receipt.rungs.last() {
            request.backend = Some(rung.backend.clone());
            request.model = Some(rung.model.clone()).filter(|model| !model.is_empty());
        }
        request.strategy.clone_from(&receipt.strategy);
        request.retry_count += receipt.retries;
        request.repairs += u32::try_from(receipt.repairs.len()).unwrap_or(u32::MAX);
        // A backend of the route that replaced another after an outage is no escalation.
        let escalated = receipt.rungs.iter().skip(1).filter(|rung| rung.tier != NAMED_TIER);
        request.escalations += u32::try_from(escalated.count()).unwrap_or(u32::MAX);
    }
}

impl Drop for SummaryGuard {
    fn drop(&mut self) {
        let mut request = std::mem::take(&mut self.request);
        request.calls = self.usage.calls();
        request.tokens = self.usage.tokens();
        self.budgets.spend(&self.sender, request.tokens.input.saturating_add(request.tokens.output));
        if let Some(log) = &self.log {
            request.duration_ms = self.started.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
            log.record(request);
        }
    }
}

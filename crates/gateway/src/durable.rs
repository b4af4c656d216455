//! Answers a request by a durable run of an agent.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipform_api::{CallerApi, RunRequest, RunResult, RunView};
use slipform_types::{
    FILTERED_MESSAGE, Receipt, RunErrorType, RunId, RunStatus, SessionId, Tokens, TraceParent,
};
use tokio::time::Instant;

use crate::chat::request::ChatRequest;
use crate::chat::response::{Answer, FinishReason};
use crate::direct::{ChoiceResult, FailedChoice, validated_text};
use crate::error::ApiError;
use crate::failure::{FailedRun, internal, timed_out};

/// The longest wait for the end of a stopped run.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// The longest wait of one call; then the run is waited for again.
const WAIT: Duration = Duration::from_secs(60);

/// Subtracts tokens from a budget.
pub(crate) type Bill = Arc<dyn Fn(&Tokens) + Send + Sync>;

/// A request to an agent.
pub(crate) struct DurableRun {
    pub(crate) api: Arc<dyn CallerApi>,
    pub(crate) agent: String,
    pub(crate) request: Arc<ChatRequest>,
    pub(crate) limit: Duration,
    /// Subtracts the tokens of the run from the budget of its sender.
    pub(crate) bill: Bill,
    /// The client's position in its trace.
    pub(crate) trace_parent: Option<TraceParent>,
}

impl DurableRun {
    /// Runs the agent and waits for its result. Dropping the future stops the run.
    pub(crate) async fn answer(&self) -> ChoiceResult {
        let deadline = Instant::now() + self.limit;
        let request = self.run_request()?;
        let (api, bill) = (self.api.clone(), self.bill.clone());
        // A client that disconnects meanwhile must not leave a run behind that is never stopped.
        let submitting = tokio::spawn(async move {
            let created = api.submit(request, None).await?;
            let run_id = Some(created.run_id.clone());
            Ok((created.run_id, StopOnDrop { api, run_id, bill }))
        });
        let submitted: Result<_, slipform_api::Error> = submitting.await.map_err(|error| internal(&error))?;
        let (run_id, mut guard) = submitted.map_err(ApiError::from)?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let run = self.api.wait(&run_id, left.min(WAIT)).await.map_err(ApiError::from)?;
            if run.status.is_ended() {
                guard.run_id = None;
                let converted = convert(run);
                let receipt = match &converted {
                    Ok(answer) => &answer.receipt,
                    Err(failed) => &failed.receipt,
                };
                (self.bill)(&receipt.tokens);
                return converted;
            }
            if left.is_zero() {
                return Err(timed_out().with("run_id", run_id.to_string()).into());
            }
        }
    }

    fn run_request(&self) -> Result<RunRequest, ApiError> {
        let ChatRequest { conversation, contract, parameters, input, .. } = &*self.request;
        if self.request.has_tools {
            let message = "an agent has tools of its own; remove `tools`, or name a backend as the model";
            return Err(ApiError::invalid("tools".to_owned(), message));
        }
        if self.request.tier.is_some() || !self.request.escalation.is_empty() {
            let message = "an agent names its tiers itself; remove `tier` and `escalation`";
            return Err(ApiError::invalid("slipform.tier".to_owned(), message));
        }
        if self.request.choices > 1 {
            return Err(ApiError::invalid("n".to_owned(), "an agent answers once; `n` must be 1"));
        }
        let has_image = conversation.messages.iter().any(slipform_types::Message::has_image);
        if has_image {
            let message = "agents take no images; name a backend as the model";
            return Err(ApiError::invalid("messages".to_owned(), message));
        }
        let mut parameters = parameters.clone();
        if !input.is_empty() {
            parameters.entry("prompt").or_insert_with(|| Value::String(input.clone()));
        }
        let request = match &self.request.session_id {
            Some(session) => {
                let session = session.parse::<SessionId>().map_err(|error| {
                    let message = format!("`metadata.session_id` is not the id of a session: {error}");
                    ApiError::invalid("metadata.session_id".to_owned(), message)
                })?;
                RunRequest { agent_name: Some(self.agent.clone()), ..RunRequest::resume(session) }
            }
            None => RunRequest::start(self.agent.clone()),
        };
        Ok(RunRequest {
            parameters: Some(Value::Object(parameters)),
            output_schema: contract.as_ref().map(|contract| Value::clone(&contract.schema)),
            output_schema_options: Some(self.request.options.clone()).filter(|options| !options.is_empty()),
            max_tokens: self.request.max_tokens,
            sampling: conversation.sampling.clone(),
            trace_parent: self.trace_parent.clone(),
            timeout_seconds: self
                .request
                .timeout
                .map(|limit| u32::try_from(limit.as_secs()).unwrap_or(u32::MAX).max(1)),
            ..request
        })
    }
}

fn convert(run: RunView) -> ChoiceResult {
    let RunResult { result_text, result_data, result, receipt, salvage, .. } = run.result.unwrap_or_default();
    let receipt: Receipt = receipt
        .map_or_else(|| Ok(Receipt::default()), serde_json::from_value)
        .map_err(|error| internal(&error))?;
    let answer = |content, finish_reason, receipt| Answer {
        run_id: run.run_id.to_string(),
        session_id: Some(run.session_id.to_string()),
        content,
        refusal: None,
        tool_calls: Vec::new(),
        finish_reason,
        receipt,
    };
    if run.status == RunStatus::Completed {
        let content = match (result_text, result_data) {
            (Some(text), _) => text,
            (None, Some(data)) => validated_text(result, &data, receipt.repairs.is_empty()),
            (None, None) => String::new(),
        };
        return Ok(answer(Some(content), FinishReason::Stop, receipt));
    }
    let cut_text =
        salvage.as_ref().filter(|_| run.contract.is_none()).and_then(|salvage| salvage.replies.last());
    let cut_text = cut_text.cloned().filter(|text| !text.is_empty());
    let error = run.error.unwrap_or_default();
    let kind = serde_json::from_value::<RunErrorType>(error["type"].clone()).unwrap_or(RunErrorType::Lost);
    let message = error["message"].as_str().unwrap_or("the run failed").to_owned();
    match kind {
        RunErrorType::Refused if message == FILTERED_MESSAGE => {
            Ok(answer(cut_text, FinishReason::ContentFilter, receipt))
        }
        RunErrorType::Refused => {
            Ok(Answer { refusal: Some(message), ..answer(cut_text, FinishReason::Stop, receipt) })
        }
        // A part of a structured answer would look like all of it.
        RunErrorType::OutputTruncated => Ok(answer(cut_text, FinishReason::Length, receipt)),
        RunErrorType::EmptyReply => Ok(answer(Some(String::new()), FinishReason::Stop, receipt)),
        kind => {
            let errors = error["validation_errors"].as_array().into_iter().flatten();
            let validation_errors = errors.filter_map(|error| error.as_str().map(str::to_owned)).collect();
            let salvage = serde_json::to_value(salvage).unwrap_or_default();
            let run_id = run.run_id.to_string();
            let call = serde_json::from_value(error["call_error"].clone()).unwrap_or_default();
            let error = FailedRun { kind, message, validation_errors, salvage, run_id }.error(call);
            Err(FailedChoice { error, receipt: Box::new(receipt) })
        }
    }
}

/// Stops a run whose client has disconnected, and bills what it has used.
struct StopOnDrop {
    api: Arc<dyn CallerApi>,
    run_id: Option<RunId>,
    bill: Bill,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let (Some(run_id), Ok(runtime)) = (self.run_id.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (api, bill) = (self.api.clone(), self.bill.clone());
        runtime.spawn(async move {
            if let Err(error) = api.stop_run(&run_id).await {
                tracing::warn!("run {run_id} could not be stopped: {error}");
            }
            if let Ok(RunView { result: Some(RunResult { receipt: Some(receipt), .. }), .. }) =
                api.wait(&run_id, STOP_WAIT).await
            {
                let tokens = serde_json::from_value(receipt["tokens"].clone()).unwrap_or_default();
                bill(&tokens);
            }
        });
    }
}

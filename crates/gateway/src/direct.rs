//! Answers a request by a run in memory: the engine enforces the contract, and nothing is stored before the answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use slipform_api::RunStart;
use slipform_runner::{Attempt, MemoryJournal, Resources, RunContext, StopSignal, SystemClock, drive_to_end};
use slipform_types::{
    Blueprint, ClientCalls, Conversation, Failure, Outcome, Receipt, RunErrorType, RunId, RunOverrides,
    RunType, SessionId, StopReason, Success, ToolCall, TraceParent, with_hex,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::chat::request::ChatRequest;
use crate::chat::response::{Answer, FinishReason};
use crate::error::ApiError;
use crate::failure::{FailedRun, internal, rejected, timed_out, unavailable, unsupported_by};
use crate::models::{ConnectError, ModelProvider, ModelRoute};
use crate::observer::{Observed, Observer, ReadTime, Restart};
use crate::random::random;
use crate::usage::UsageMeter;

/// The name of the agent that direct runs have in traces.
const AGENT: &str = "gateway";

/// Receives the text of an answer as it is written.
pub(crate) type Deltas = mpsc::UnboundedSender<String>;

/// A choice without an answer.
#[derive(Debug)]
pub(crate) struct FailedChoice {
    pub(crate) error: ApiError,
    /// The record of what was tried.
    pub(crate) receipt: Box<Receipt>,
}

impl From<ApiError> for FailedChoice {
    fn from(error: ApiError) -> FailedChoice {
        FailedChoice { error, receipt: Box::default() }
    }
}

/// The answer of a choice, or why it has none.
pub(crate) type ChoiceResult = Result<Answer, FailedChoice>;

/// A request to a plain model.
pub(crate) struct DirectRun {
    pub(crate) provider: Arc<dyn ModelProvider>,
    pub(crate) route: ModelRoute,
    pub(crate) request: Arc<ChatRequest>,
    pub(crate) limit: Duration,
    /// The client's position in its trace.
    pub(crate) trace_parent: Option<TraceParent>,
    pub(crate) usage: Arc<UsageMeter>,
}

impl DirectRun {
    /// Answers one choice. `deltas` receives the text of the answer as it is written, if its form is guaranteed.
    pub(crate) async fn answer(&self, run_id: RunId, choice: u32, deltas: Option<Deltas>) -> ChoiceResult {
        let deadline = Instant::now() + self.limit;
        let blueprint = Arc::new(Blueprint {
            name: AGENT.to_owned(),
            system_prompt: self.request.system.clone(),
            ..Blueprint::default()
        });
        let resources = self.connect(blueprint.clone(), deadline).await?;
        let session_id = SessionId::from_random(random());
        let journal = MemoryJournal::without_attempts(Arc::new(SystemClock));
        journal.submit(&session_id, &run_id, self.start(blueprint, choice));
        let mut assignment = journal.assignment(&session_id, &run_id).map_err(|error| internal(&error))?;
        let left = deadline.saturating_duration_since(Instant::now());
        assignment.time_left_ms = Some(left.as_millis().try_into().unwrap_or(i64::MAX));
        let (assignment, stop) = (Arc::new(assignment), StopSignal::default());
        let attempt = Attempt::new(Arc::new(journal), assignment.clone(), stop.clone());
        let context = RunContext { assignment, resources };
        let keeps_text = self.request.contract.is_none() && self.request.choices == 1;
        // Clients that read an answer as it is written limit the time between two of its pieces.
        let time = ReadTime { deadline: attempt.deadline(), limit: self.limit };
        let time = Some(time).filter(|_| self.request.timeout.is_none());
        let observer = Observer::new(deltas, stop, self.usage.clone(), keeps_text, time);
        let outcome = drive_to_end(&context, &attempt, &observer).await.map_err(|error| internal(&error))?;
        self.convert(&run_id, outcome, observer.observed())
    }

    /// Connects the backends, and refuses sampling parameters that one of them does not know.
    async fn connect(&self, blueprint: Arc<Blueprint>, deadline: Instant) -> Result<Resources, ApiError> {
        let connecting = self.provider.connect(blueprint.clone(), &self.route);
        let connected = tokio::time::timeout_at(deadline, connecting).await.map_err(|_| timed_out())?;
        let mut resources = connected.map_err(|error| match error {
            ConnectError::Unavailable(reason) => unavailable(reason, None),
            ConnectError::Misconfigured(reason) => rejected(reason, None),
        })?;
        resources.blueprint = blueprint;
        let names: Vec<&str> = self.request.conversation.sampling.names().collect();
        let (mut refused, mut can_answer) = (None, false);
        let mut is_of_route = true;
        // A backend that cannot honour a parameter is left out if a fallback of the route can. A tier of the escalation does not
        // replace it: a tier answers only when the contract is not met.
        resources.ladder.retain(|rung| {
            is_of_route &= rung.tier.is_fallback || (refused.is_none() && !can_answer);
            let known = rung.backend.sampling();
            let unknown = names.iter().find(|name| !known.contains(name));
            refused = refused.take().or_else(|| unknown.map(|name| (rung.tier.backend.name.clone(), *name)));
            can_answer |= unknown.is_none() && is_of_route;
            unknown.is_none()
        });
        if can_answer {
            if let Some(first) = resources.ladder.first_mut() {
                first.tier.is_fallback = false;
            }
        } else if let Some((backend, name)) = refused {
            return Err(unsupported_by(&backend, name));
        }
        Ok(resources)
    }

    fn start(&self, blueprint: Arc<Blueprint>, choice: u32) -> RunStart {
        let ChatRequest { contract, input, conversation, max_tokens, .. } = &*self.request;
        let mut conversation = conversation.clone();
        // With the same seed all choices would be equal.
        if let Some(seed) = conversation.sampling.seed.filter(|_| choice > 0) {
            Arc::make_mut(&mut conversation).sampling.seed = Some(seed.wrapping_add(choice.into()));
        }
        RunStart {
            run_type: RunType::StartSession,
            blueprint,
            contract: contract.clone(),
            parameters: json!({"prompt": input}),
            input: input.clone(),
            overrides: RunOverrides {
                max_tokens: *max_tokens,
                trace_parent: self.trace_parent.clone(),
                ..RunOverrides::default()
            },
            conversation: Some(conversation),
        }
    }

    fn convert(&self, run_id: &RunId, outcome: Outcome, observed: Observed) -> ChoiceResult {
        let answer = |content, finish_reason, receipt| Answer {
            run_id: run_id.to_string(),
            session_id: None,
            content,
            refusal: None,
            tool_calls: Vec::new(),
            finish_reason,
            receipt,
        };
        match outcome {
            Outcome::Completed(success) => {
                let Success { result_text, result_data, receipt } = *success;
                let content = match (result_text, result_data) {
                    (Some(text), _) => after_sent(observed.sent, text),
                    (None, Some(data)) => validated_text(observed.reply, &data, receipt.repairs.is_empty()),
                    (None, None) => String::new(),
                };
                Ok(answer(Some(content), FinishReason::Stop, receipt))
            }
            Outcome::ToolCalls(ended) => {
                let ClientCalls { text, calls, receipt } = *ended;
                // What the client has read stays, although a later reply made the calls.
                let text = observed.sent.unwrap_or(text);
                let content = Some(text).filter(|text| !text.is_empty());
                let conversation = &self.request.conversation;
                let mut tool_calls: Vec<ToolCall> = Vec::with_capacity(calls.len());
                for call in calls {
                    tool_calls.push(with_client_id(call, conversation, &tool_calls));
                }
                Ok(Answer { tool_calls, ..answer(content, FinishReason::ToolCalls, receipt) })
            }
            Outcome::Failed(failure) => self.convert_failure(run_id, *failure, observed, answer),
        }
    }

    fn convert_failure(
        &self,
        run_id: &RunId,
        failure: Failure,
        observed: Observed,
        answer: impl Fn(Option<String>, FinishReason, Receipt) -> Answer,
    ) -> ChoiceResult {
        let Failure { error, salvage, receipt } = failure;
        // A text can be a part; a part of a structured answer would look like all of it.
        let is_text = self.request.contract.is_none() && !self.request.conversation.must_call();
        // An envelope that was cut off is not the model's text.
        let written = observed.reply.filter(|_| is_text && observed.is_plain && !observed.has_calls);
        let text = match (observed.sent.clone(), written) {
            (sent, Some(written)) => Some(after_sent(sent, written)),
            (sent, None) => sent,
        };
        let kind = match observed.restart {
            Some(Restart::AfterOutage) => RunErrorType::BackendUnavailable,
            Some(Restart::AfterRejection) => RunErrorType::OutputSchemaValidationFailed,
            None => error.kind,
        };
        match kind {
            RunErrorType::Refused if observed.stop == Some(StopReason::Filtered) => {
                Ok(answer(text, FinishReason::ContentFilter, receipt))
            }
            RunErrorType::Refused => {
                let written = text.filter(|text| !text.is_empty());
                let refused = answer(written, FinishReason::Stop, receipt);
                Ok(Answer { refusal: Some(error.message), ..refused })
            }
            RunErrorType::OutputTruncated => Ok(answer(text, FinishReason::Length, receipt)),
            RunErrorType::EmptyReply => Ok(answer(Some(String::new()), FinishReason::Stop, receipt)),
            kind => {
                let message = match (observed.restart, &observed.call_error) {
                    (Some(Restart::AfterOutage), Some(error)) => error.message.clone(),
                    (Some(Restart::AfterRejection), _) => {
                        "the streamed answer was rejected; request it without `stream`".to_owned()
                    }
                    _ => error.message,
                };
                let failed = FailedRun {
                    kind,
                    message,
                    validation_errors: error.validation_errors,
                    salvage: serde_json::to_value(salvage).unwrap_or_default(),
                    run_id: run_id.to_string(),
                };
                Err(FailedChoice { error: failed.error(observed.call_error), receipt: Box::new(receipt) })
            }
        }
    }
}

/// Returns an answer behind the text that the client has read before it, which stays although the model began again.
fn after_sent(sent: Option<String>, text: String) -> String {
    match sent {
        Some(sent) if text.is_empty() => sent,
        Some(sent) if !text.starts_with(&sent) => format!("{sent}\n\n{text}"),
        _ => text,
    }
}

/// Returns the text of a validated value: as the model wrote it, unless it was changed.
pub(crate) fn validated_text(written: Option<String>, value: &Value, is_unrepaired: bool) -> String {
    let compact = value.to_string();
    let is_same = |text: &String| {
        *text == compact || serde_json::from_str::<Value>(text).is_ok_and(|parsed| parsed == *value)
    };
    written.filter(|text| is_unrepaired && is_same(text)).unwrap_or(compact)
}

/// Returns a call with an id that is unique in the conversation. The ids of servers are kept, because some require their own
/// form; numbered ones would repeat with every request.
fn with_client_id(call: ToolCall, conversation: &Conversation, others: &[ToolCall]) -> ToolCall {
    let mut known = conversation.messages.iter().flat_map(|message| &message.tool_calls).chain(others);
    let has_letters = |rest: &str| rest.len() > 3 && rest.bytes().any(|byte| !byte.is_ascii_digit());
    // The engine numbers the calls of servers that give no ids.
    let is_numbered = call.id == "act" || call.id.starts_with("act-") || call.id.starts_with("call-");
    let is_counted = call.id.strip_prefix("call_").is_some_and(|rest| !has_letters(rest));
    if !call.id.is_empty() && !is_numbered && !is_counted && !known.any(|other| other.id == call.id) {
        return call;
    }
    let bytes: [u8; 12] = random();
    ToolCall { id: with_hex("call_", &bytes), ..call }
}

#[cfg(test)]
mod tests {
    use slipform_types::Message;

    use super::*;

    #[test]
    fn ids_of_calls_are_unique_in_the_conversation() {
        let call =
            |id: &str| ToolCall { id: id.to_owned(), name: "f".to_owned(), arguments: "{}".to_owned() };
        let messages = vec![Message::assistant("", vec![call("toolu_1")])];
        let conversation = Conversation { messages, ..Conversation::default() };
        let id = |id: &str, others: &[ToolCall]| with_client_id(call(id), &conversation, others).id;
        for kept in ["call_a1b2c3d4", "toolu_2", "chatcmpl-tool-9f8e"] {
            assert_eq!(id(kept, &[]), kept);
        }
        for replaced in ["", "act", "act-1-1", "call-1-1", "call_1", "call_0123", "toolu_1"] {
            let new = id(replaced, &[]);
            assert!(new.starts_with("call_") && new.len() == 29, "{replaced}: {new}");
        }
        assert_ne!(id("toolu_3", &[call("toolu_3")]), "toolu_3");
    }
}

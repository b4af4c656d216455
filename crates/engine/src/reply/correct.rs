//! Corrections: asks again for an answer that was rejected.

use serde_json::Value;
use slipform_schema::Violations;
use slipform_types::{Correction, Protocol, Repair, Reply, RunErrorType, SchemaForm};

use super::extract::CUT_OFF;
use super::judge::Reading;
use super::rejection::Rejection;
use super::{Answer, Content, ModelReply, Source};
use crate::call_plan::{CallPlan, RequestKind};
use crate::conversation::PastRun;
use crate::output_mode::OutputMode;
use crate::patch::Parts;
use crate::prompt::{self, Form, RetryReason};
use crate::state::State;
use crate::tool_loop::tool_calls_in;
use crate::usage::reply_text;

/// The token budget after a truncated reply, if neither the agent nor the backend sets one.
const BUDGET_MIN: u32 = 2_048;

/// The largest token budget that is requested. Backends do not support more.
const BUDGET_MAX: u32 = 65_536;

/// A low estimate of the characters per token, used to fit an answer into a token budget.
const CHARACTERS_A_TOKEN: usize = 2;

/// A value that violates the contract.
pub(super) struct InvalidResult {
    candidate: Value,
    violations: Violations,
    repairs: Vec<Repair>,
}

impl State {
    /// Keeps a value that violates the contract, and asks for a correction.
    pub(super) fn correct_invalid(&mut self, answer: Answer, violations: Violations) {
        let Answer { source, content: Content::Value(reading) } = answer else { return };
        let Reading { value: candidate, repairs, .. } = reading;
        self.usage.record_invalid_candidate(&candidate, &violations);
        let message = match source {
            Source::Program(_) => "The program's output did not match schema",
            _ => "Output did not match schema",
        };
        let rejection = Rejection::unmet(RetryReason::Mismatch, violations.lines(), message);
        self.correct(source, rejection, Some(InvalidResult { candidate, violations, repairs }));
    }

    /// Asks for a correction in the protocol of the reply. A program is not retried.
    pub(super) fn correct(&mut self, source: Source, rejection: Rejection, invalid: Option<InvalidResult>) {
        let Some(ModelReply { plan, reply }) = source.into_model_reply() else {
            return self.fail_answer(rejection.kind, rejection.message, rejection.errors);
        };
        match plan.protocol {
            Protocol::Actions => self.correct_envelope(plan, &reply, rejection),
            Protocol::Tools => self.ask_again(plan, &reply, rejection, invalid),
        }
    }

    /// Asks again for a text.
    pub(super) fn ask_for_text(&mut self, source: Source, rejection: Rejection) {
        let Some(ModelReply { plan, .. }) = source.into_model_reply() else { return };
        let error = rejection.errors.first().map(String::as_str).unwrap_or_default();
        let reason = error.trim_start_matches("$: ").to_owned();
        self.retry(rejection, CallPlan { request_kind: RequestKind::Plain { reason }, ..plan });
    }

    /// Asks follow-up questions: the exchange so far becomes a past run, and the questions become
    /// the next input.
    pub(super) fn ask_follow_up(&mut self, answer: Answer, questions: &[String]) {
        let text = answer.text();
        let Some(ModelReply { plan, .. }) = answer.source.into_model_reply() else { return };
        // The follow-up is a new request, with its own retries.
        self.ladder.rung.reset_retries();
        self.ladder.rung.has_reminded = false;
        let Some(task) = &mut self.task else { return };
        let input = std::mem::replace(&mut task.input, prompt::clarify(questions));
        let turns = std::mem::take(&mut self.tools.turns);
        self.acceptance.clarity.record_question(&input, self.history.past_runs.len());
        self.history.past_runs.push(PastRun { input, turns, answer: text });
        self.ladder.call = Some(self.ladder.fresh(plan, &task.limits()).into());
    }

    /// Retries a truncated reply with a larger budget, asking only for the missing parts where
    /// possible.
    pub(super) fn retry_truncated(&mut self, source: Source, candidate: Option<Value>, repairs: Vec<Repair>) {
        let Some(ModelReply { plan, reply }) = source.into_model_reply() else { return };
        let ceiling =
            self.ladder.backend().and_then(|backend| Some((backend.name.clone(), backend.max_tokens?)));
        let limit = ceiling.filter(|(_, most)| plan.budget == Some(*most));
        let limit =
            limit.map(|(name, most)| format!(" ({most}, backends.{name}.max_tokens)")).unwrap_or_default();
        let message = format!("Output was cut off by the token limit{limit}");
        let errors = vec![CUT_OFF.to_owned()];
        let rejection = Rejection {
            kind: RunErrorType::OutputTruncated,
            retry_reason: RetryReason::CutOff,
            errors,
            message,
        };
        let Some(backend) = self.ladder.backend() else { return };
        // A client pays for at most the tokens that it allowed.
        let allowed = self.task.as_ref().filter(|task| task.conversation.is_some());
        let allowed = allowed.and_then(|task| task.limits().max_tokens);
        let most = [backend.max_tokens, allowed].into_iter().flatten().min();
        let budget = larger_budget(plan.budget, reply.usage.output, most);
        let grows = budget > plan.budget.unwrap_or(0);
        // If the budget cannot grow, or the model is small, the schema itself is narrowed to
        // shorter answers.
        let needs_shorter_answer = !grows || backend.small;
        let is_constrained = plan.mode.is_native() || plan.mode == OutputMode::Tool;
        let narrow = (needs_shorter_answer && is_constrained).then_some(budget as usize * CHARACTERS_A_TOKEN);
        if let (Some(contract), Some(candidate)) = (self.contract(), &candidate) {
            let violations = contract.violations(candidate);
            self.usage.record_invalid_candidate(candidate, &violations);
        }
        let in_envelope = plan.protocol == Protocol::Actions;
        let rest = self.contract().and_then(|contract| {
            let is_text = plan.mode != OutputMode::Tool && !in_envelope;
            let wanted = contract.options().correction != Correction::Full && is_text;
            Parts::rest(&contract.schema, candidate.as_ref().filter(|_| wanted)?)
        });
        let (retry_reason, errors) = (rejection.retry_reason, rejection.errors.clone());
        let was_calling =
            !in_envelope && self.tools.is_active() && tool_calls_in(&reply, self.contract()).is_some();
        let request_kind = match rest {
            _ if was_calling => RequestKind::CallAgain,
            Some(parts) => RequestKind::Patch { retry_reason, errors, parts: Box::new(parts.after(repairs)) },
            None if self.contract().is_none() && !in_envelope => RequestKind::First,
            None => RequestKind::Full { retry_reason, errors, previous: String::new() },
        };
        self.retry(rejection, CallPlan { request_kind, budget: Some(budget), narrow, ..plan });
    }

    /// Asks again for a document: only its parts if it is nearly valid, otherwise all of it.
    /// Switches to the next route if this output mode does not work.
    fn ask_again(
        &mut self,
        plan: CallPlan,
        reply: &Reply,
        rejection: Rejection,
        invalid_result: Option<InvalidResult>,
    ) {
        let mut plan = plan;
        let (retry_reason, errors) = (rejection.retry_reason, rejection.errors.clone());
        // Arguments that do not parse still count as a call and are answered as one.
        let called = plan.mode == OutputMode::Tool && rejection.kind != RunErrorType::ResultNotSubmitted;
        if invalid_result.is_none() && retry_reason == RetryReason::NoAnswer && !called {
            let is_silent = reply.text.trim().is_empty();
            let route =
                if is_silent { self.ladder.next_route_after_silence() } else { self.ladder.next_route() };
            if let Some(route) = route {
                self.ladder.rung.unmet = Some(rejection.clone());
                plan = plan.on(route);
                plan.request_kind = RequestKind::Full { retry_reason, errors, previous: reply_text(reply) };
                return self.retry(rejection, plan);
            }
            if plan.mode == OutputMode::Tool {
                if self.ladder.rung.has_reminded {
                    return self.escalate_or_fail(rejection);
                }
                self.ladder.rung.has_reminded = true;
                plan.request_kind = RequestKind::Reminder { content: reply.text.clone() };
                return self.retry(rejection, plan);
            }
        }
        let schema = self.contract().map(|contract| &*contract.definition.schema);
        let is_echo = echoes_schema(schema, &reply_text(reply));
        let wanted = self.contract().map(|contract| contract.options().schema_form);
        if is_echo && wanted == Some(SchemaForm::Auto) {
            plan.form = Form::Compact;
        }
        // The model cannot use a patch without its document when the whole document is requested.
        let previous = match (&invalid_result, plan.parts()) {
            (Some(invalid_result), Some(_)) => invalid_result.candidate.to_string(),
            _ => reply_text(reply),
        };
        // Parts of an echoed schema are not parts of an answer.
        plan.request_kind = match self.parts(&plan, invalid_result.filter(|_| !is_echo)) {
            Some(parts) => RequestKind::Patch { retry_reason, errors, parts: Box::new(parts) },
            None if plan.mode == OutputMode::Tool && !reply.tool_calls.is_empty() => {
                let calls = self.tools.with_unique_ids(&reply.tool_calls, &self.history.past_runs);
                RequestKind::ToolResult { retry_reason, errors, content: reply.text.clone(), calls }
            }
            None => RequestKind::Full { retry_reason, errors, previous },
        };
        self.ladder.rung.has_tried_patch |= matches!(plan.request_kind, RequestKind::Patch { .. });
        self.retry(rejection, plan);
    }

    /// Returns the parts to ask for, if patching is allowed, possible and cheaper than the full
    /// form.
    fn parts(&self, plan: &CallPlan, invalid_result: Option<InvalidResult>) -> Option<Parts> {
        let contract = self.contract()?;
        let InvalidResult { candidate, violations, repairs } = invalid_result?;
        let wrapped = contract.wrapped.is_some() && plan.mode.wants_object();
        // Parts of one call would replace the other calls of the reply.
        if wrapped || plan.mode == OutputMode::Universal || contract.tool.takes_all_calls {
            return None;
        }
        let forced = match contract.options().correction {
            Correction::Full => return None,
            Correction::Patch => true,
            // After one failed patch the whole document is requested.
            Correction::Auto if self.ladder.rung.has_tried_patch || plan.mode == OutputMode::Tool => {
                return None;
            }
            Correction::Auto => false,
        };
        let mut parts = Parts::of(&contract.schema, &candidate, &violations)?.after(repairs);
        // The rules beyond a schema compare members with each other.
        if contract.has_extra_rules() && contract.schema.is_valid(&candidate) {
            parts.show_context();
        }
        let whole = candidate.to_string().len();
        let shown = contract.definition.schema.to_string().len();
        let full_cost = 2 * whole + shown;
        let context = parts.context.as_ref().map_or(0, |context| context.to_string().len());
        let patch_cost = 2 * parts.size() + context + parts.schema.source().to_string().len();
        (forced || patch_cost * 2 < full_cost).then_some(parts)
    }

    /// Asks again for the envelope, or for the result inside it.
    pub(crate) fn correct_envelope(&mut self, plan: CallPlan, reply: &Reply, rejection: Rejection) {
        let mut plan = plan;
        if rejection.retry_reason == RetryReason::Envelope
            && plan.mode.is_native()
            && let Some(route) = self.ladder.next_route()
        {
            plan = plan.on(route);
        }
        let request_kind = RequestKind::Full {
            retry_reason: rejection.retry_reason,
            errors: rejection.errors.clone(),
            previous: reply_text(reply),
        };
        self.retry(rejection, CallPlan { request_kind, ..plan });
    }
}

/// Returns the budget after a truncated reply: doubled, within the limit of the backend.
fn larger_budget(budget: Option<u32>, written: u64, most: Option<u32>) -> u32 {
    let written = u32::try_from(written).unwrap_or(BUDGET_MAX);
    let doubled = match budget {
        Some(budget) => budget.saturating_mul(2),
        None => written.saturating_mul(2).max(BUDGET_MIN),
    };
    doubled.min(most.unwrap_or(BUDGET_MAX)).max(budget.unwrap_or(1))
}

/// Returns whether a reply repeats the schema instead of answering it.
fn echoes_schema(schema: Option<&Value>, text: &str) -> bool {
    let has_properties_member = schema.is_some_and(|schema| schema["properties"].get("properties").is_some());
    !has_properties_member && text.contains("\"properties\"") && text.contains("\"type\"")
}

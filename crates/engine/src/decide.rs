//! Decides what follows from a reply: a result, another call, the next rung, or a typed failure.

use serde_json::Value;
use slipform_types::{
    AgentCard, CallError, CallErrorKind, ChildEnd, Correction, EventBody, Failure, NOT_SUBMITTED, Outcome,
    Protocol, Repair, Reply, RunError, RunErrorType, Rung as ReceiptRung, SchemaForm, StopReason, Strategy,
    StructuredOutput, Success, ToolCall, UniversalResponse,
};

use crate::call_plan::{CallPlan, RequestKind};
use crate::clarity::Candidate;
use crate::contract::CompiledContract;
use crate::criteria;
use crate::envelope;
use crate::error::Error;
use crate::judge::{
    AcceptedResult, InvalidResult, JudgeContext, SUBMIT, Verdict, judge, message_text, refusal,
};
use crate::orchestrator::{Orchestration, SubtasksEnd};
use crate::output_mode::{OutputMode, routes, subtask_plan_routes};
use crate::patch::Parts;
use crate::placeholder::placeholders;
use crate::prompt::{Form, RetryReason};
use crate::state::{RETRIES_WITHOUT_CONTRACT, State};
use crate::tool_state::LoopLimits;
use crate::usage::reply_text;

/// The token budget after a truncated reply, if neither the agent nor the backend sets one.
const BUDGET_MIN: u32 = 2_048;

/// The largest token budget that is requested. Backends do not support more.
const BUDGET_MAX: u32 = 65_536;

/// A low estimate of the characters per token, used to fit an answer into a token budget.
const CHARACTERS_A_TOKEN: usize = 2;

/// The reason why a reply is rejected, as reported in a failure and in a retry.
pub(crate) struct Rejection {
    pub(crate) kind: RunErrorType,
    pub(crate) retry_reason: RetryReason,
    pub(crate) errors: Vec<String>,
    pub(crate) message: String,
}

impl Rejection {
    /// Creates a rejection for a reply that does not meet its requirements.
    pub(crate) fn unmet(retry_reason: RetryReason, errors: Vec<String>, message: &str) -> Rejection {
        let kind = RunErrorType::OutputSchemaValidationFailed;
        Rejection { kind, retry_reason, errors, message: message.to_owned() }
    }
}

impl State {
    /// Enters a rung of the escalation ladder and plans its first call.
    pub(crate) fn enter_rung(&mut self, index: usize) {
        let (Some(tier), Some(task)) = (self.ladder.tier(index).cloned(), &self.task) else { return };
        let options = task.contract.as_ref().map(CompiledContract::options);
        let protocol = self.tools.is_active().then_some(task.blueprint.protocol);
        let routes = if self.children.is_planning() {
            subtask_plan_routes(&tier.backend)
        } else {
            routes(options.map(|options| options.strategy), protocol, &tier.backend)
        };
        let limits = &task.blueprint.limits;
        self.tools.limits = LoopLimits::of(limits, routes[0].mode == OutputMode::Grammar);
        let wanted = options.map_or(SchemaForm::Auto, |options| options.schema_form);
        self.ladder.enter(index, routes, Form::of(wanted, tier.backend.small), limits);
        self.usage.enter_rung(ReceiptRung { tier: tier.tier, backend: tier.backend.name, calls: 0 });
    }

    /// Begins the orchestration of the run by a team of agents.
    pub(crate) fn begin_orchestration(&mut self, team: &[AgentCard]) -> Result<(), Error> {
        let Some(original_task) = self.task.clone() else {
            return Err(Error::Journal("`attempt_started` without `run_start` or without a backend"));
        };
        if team.is_empty() {
            let message =
                "no agent to assign subtasks to; name an existing agent that takes a prompt in `agents`";
            self.interrupt(RunErrorType::ToolFailed, message.to_owned());
            return Ok(());
        }
        self.children.orchestration = Some(Box::new(Orchestration::new(original_task, team)));
        self.ask_for_subtask_plan()
    }

    fn ask_for_subtask_plan(&mut self) -> Result<(), Error> {
        let Some(orchestration) = &mut self.children.orchestration else { return Ok(()) };
        self.task = Some(orchestration.begin_planning()?);
        self.enter_rung(self.ladder.rung.index);
        Ok(())
    }

    /// Executes a subtask plan: starts every subtask that is ready.
    pub(crate) fn execute_subtask_plan(&mut self, subtask_plan: &Value) {
        let Some(orchestration) = &mut self.children.orchestration else { return };
        // Invalid plans are not candidates for the result.
        self.usage.clear_candidates();
        self.decisions.note(orchestration.begin_working(subtask_plan));
        self.start_ready_subtasks();
    }

    /// Handles the end of a subtask.
    pub(crate) fn handle_subtask_end(&mut self, call_id: &str, end: Result<&ChildEnd, String>) {
        let Some(orchestration) = &mut self.children.orchestration else { return };
        if orchestration.record_end(call_id, end) {
            self.start_ready_subtasks();
        }
    }

    /// Starts every subtask that is ready. If none is running, asks for the summary or for another
    /// plan, or fails the run.
    fn start_ready_subtasks(&mut self) {
        let Some(end) = self.children.start_ready_subtasks() else { return };
        match end {
            SubtasksEnd::Summarize => {
                let Some(orchestration) = &mut self.children.orchestration else { return };
                self.task = Some(orchestration.begin_summarizing(self.ladder.backend()));
                self.enter_rung(self.ladder.rung.index);
            }
            SubtasksEnd::PlanAgain => {
                if let Err(error) = self.ask_for_subtask_plan() {
                    self.end(RunErrorType::ToolFailed, error.to_string());
                }
            }
            SubtasksEnd::Fail { message, errors } => self.fail(RunErrorType::ToolFailed, message, errors),
        }
    }

    pub(crate) fn decide_on_reply(&mut self, plan: CallPlan, reply: &Reply) {
        if self.tools.is_active() && refusal(&reply.stop).is_none() && reply.stop != StopReason::Length {
            if let Some(called) = self.tool_calls_in(reply) {
                return self.begin_step(plan, called, reply);
            }
            if plan.protocol == Protocol::Actions {
                return self.decide_on_envelope(plan, reply);
            }
        }
        let Some(contract) = self.contract() else { return self.decide_on_text(plan, reply) };
        let judge_context = JudgeContext {
            mode: plan.mode,
            text_counts: contract.options().strategy == Strategy::Auto,
            parts: plan.parts(),
        };
        let verdict = judge(contract, &judge_context, reply);
        match verdict {
            Verdict::Valid(accepted) => self.accept(plan, accepted, reply),
            Verdict::Refused { message } => self.end(RunErrorType::Refused, message),
            Verdict::Invalid(invalid_result) => {
                self.usage.record_invalid_candidate(&invalid_result.candidate, &invalid_result.violations);
                let rejection = Rejection::unmet(
                    RetryReason::Mismatch,
                    invalid_result.violations.lines(),
                    "Output did not match schema",
                );
                self.ask_again(plan, reply, rejection, Some(invalid_result));
            }
            Verdict::Truncated { candidate, repairs } => {
                let candidate = match plan.protocol {
                    Protocol::Tools => candidate,
                    Protocol::Actions => candidate.and_then(envelope::partial_result),
                };
                self.retry_truncated(plan, reply, candidate, repairs);
            }
            other => {
                let tool = contract.tool;
                let rejection = self.no_answer(&other, tool);
                self.ask_again(plan, reply, rejection, None);
            }
        }
    }

    pub(crate) fn accept(&mut self, plan: CallPlan, accepted: AcceptedResult, reply: &Reply) {
        let found = placeholders(&self.usage.candidates, &accepted.value);
        let rejects_placeholders =
            self.contract().is_some_and(|contract| contract.options().reject_placeholders);
        if !found.is_empty() {
            if rejects_placeholders {
                let rejection = Rejection::unmet(
                    RetryReason::Placeholder,
                    found.iter().map(ToString::to_string).collect(),
                    "Output held placeholders instead of content",
                );
                return self.correct(plan, reply, rejection);
            }
            self.usage.flag("placeholder");
        }
        self.verify_paths_or_finish(plan, accepted, reply);
    }

    /// Continues with a result that passed all checks: executes a plan, or has an answer scored.
    pub(crate) fn proceed_with_result(&mut self, plan: CallPlan, accepted: AcceptedResult, reply: &Reply) {
        if self.children.is_planning() {
            return self.execute_subtask_plan(&accepted.value);
        }
        let orchestration = self.children.orchestration.as_ref();
        match orchestration.and_then(|it| it.summary_text(&accepted.value)) {
            Some(text) => self.proceed_with_text(plan, text, reply),
            None => self.score_or_finish(plan, Candidate::Data(accepted), reply),
        }
    }

    /// Continues with a text answer, after checking the citations of a summary.
    pub(crate) fn proceed_with_text(&mut self, plan: CallPlan, text: String, reply: &Reply) {
        let orchestration = self.children.orchestration.as_ref();
        match orchestration.and_then(|it| it.uncited_rejection(&text)) {
            Some(rejection) if self.ladder.rung.retries < RETRIES_WITHOUT_CONTRACT => {
                let request_kind =
                    RequestKind::Plain { reason: rejection.errors[0].trim_start_matches("$: ").to_owned() };
                self.retry(rejection, CallPlan { request_kind, ..plan });
            }
            Some(_) => {
                let text = orchestration.map_or_else(String::new, |it| it.with_sources(&text));
                self.usage.flag("sources_added");
                self.score_or_finish(plan, Candidate::Text(text), reply);
            }
            None => self.score_or_finish(plan, Candidate::Text(text), reply),
        }
    }

    /// Completes the run with a result.
    pub(crate) fn finish(&mut self, plan: CallPlan, accepted: AcceptedResult, reply: &Reply) {
        for flag in &accepted.flags {
            self.usage.flag(flag);
        }
        if criteria::criteria(&self.tools.decided, &self.tools.undecided).iter().any(|it| it.passed.is_none())
        {
            // No check decided these criteria, so the result depends on the claim of the model.
            self.usage.flag("undecided_criteria");
        }
        self.usage.add_backend_flags(reply, accepted.flags.contains(&"patched"));
        if plan.narrow.is_some() {
            self.usage.flag("narrowed");
        }
        let receipt = self.usage.receipt(plan.mode.strategy(), self.contract(), accepted.repairs);
        let success = Success { result_text: None, result_data: Some(accepted.value), receipt };
        self.decisions.set_outcome(Outcome::Completed(Box::new(success)));
    }

    /// Handles a reply to a run without a contract: any complete text is accepted.
    fn decide_on_text(&mut self, plan: CallPlan, reply: &Reply) {
        if let Some(message) = refusal(&reply.stop) {
            return self.end(RunErrorType::Refused, message);
        }
        if reply.stop == StopReason::Length {
            return self.retry_truncated(plan, reply, None, Vec::new());
        }
        let is_forced = self
            .ladder
            .backend()
            .is_some_and(|backend| backend.structured_output == StructuredOutput::Universal);
        let answer = if is_forced { message_text(&reply.text) } else { Ok(reply.text.clone()) };
        let reason = match answer {
            Ok(text) if !text.trim().is_empty() => return self.proceed_with_text(plan, text, reply),
            Ok(_) => "it was empty".to_owned(),
            Err(error) => error,
        };
        let rejection =
            Rejection::unmet(RetryReason::NoAnswer, vec![format!("$: {reason}")], "The model gave no answer");
        self.retry(rejection, CallPlan { request_kind: RequestKind::Plain { reason }, ..plan });
    }

    pub(crate) fn finish_with_text(&mut self, text: String) {
        let receipt = self.usage.receipt(None, None, Vec::new());
        let success = Success { result_text: Some(text), result_data: None, receipt };
        self.decisions.set_outcome(Outcome::Completed(Box::new(success)));
    }

    /// Completes the run with the output of a program. No model was called.
    pub(crate) fn finish_with_data(&mut self, value: Value) {
        let receipt = self.usage.receipt(None, self.contract(), Vec::new());
        let success = Success { result_text: None, result_data: Some(value), receipt };
        self.decisions.set_outcome(Outcome::Completed(Box::new(success)));
    }

    /// Retries a truncated reply with a larger budget, asking only for the missing parts where
    /// possible.
    fn retry_truncated(
        &mut self,
        plan: CallPlan,
        reply: &Reply,
        candidate: Option<Value>,
        repairs: Vec<Repair>,
    ) {
        let ceiling =
            self.ladder.backend().and_then(|backend| Some((backend.name.clone(), backend.max_tokens?)));
        let limit = ceiling.filter(|(_, most)| plan.budget == Some(*most));
        let limit =
            limit.map(|(name, most)| format!(" ({most}, backends.{name}.max_tokens)")).unwrap_or_default();
        let message = format!("Output was cut off by the token limit{limit}");
        let errors = vec!["$: the response was cut off by the token limit".to_owned()];
        let rejection = Rejection {
            kind: RunErrorType::OutputTruncated,
            retry_reason: RetryReason::CutOff,
            errors,
            message,
        };
        let Some(backend) = self.ladder.backend() else { return };
        let budget = larger_budget(plan.budget, reply.usage.output, backend.max_tokens);
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
        let was_calling = !in_envelope && self.tools.is_active() && self.tool_calls_in(reply).is_some();
        let request_kind = match rest {
            _ if was_calling => RequestKind::CallAgain,
            Some(parts) => RequestKind::Patch { retry_reason, errors, parts: Box::new(parts.after(repairs)) },
            None if self.contract().is_none() && !in_envelope => RequestKind::First,
            None => RequestKind::Full { retry_reason, errors, previous: String::new() },
        };
        self.retry(rejection, CallPlan { request_kind, budget: Some(budget), narrow, ..plan });
    }

    /// Keeps the beginning of a document whose reply was interrupted.
    pub(crate) fn keep_partial(&mut self, plan: &CallPlan, text: &str) {
        // If the agent has tools, the text may be the arguments of any of them.
        let Some(contract) = self.contract().filter(|_| !self.tools.is_active()) else { return };
        let mut reply = Reply { text: text.to_owned(), stop: StopReason::Length, ..Reply::default() };
        if plan.mode == OutputMode::Tool {
            let (id, name) = (String::new(), contract.tool.to_owned());
            reply.tool_calls.push(ToolCall { id, name, arguments: text.to_owned() });
        }
        let judge_context = JudgeContext { mode: plan.mode, text_counts: true, parts: plan.parts() };
        let Verdict::Truncated { candidate: Some(candidate), .. } = judge(contract, &judge_context, &reply)
        else {
            return;
        };
        let violations = contract.violations(&candidate);
        self.usage.record_invalid_candidate(&candidate, &violations);
    }

    /// Asks again for a document: only its parts if it is nearly valid, otherwise all of it.
    /// Switches to the next route if this output mode does not work.
    pub(crate) fn ask_again(
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
            if let Some(route) = self.ladder.next_route(&plan, !self.tools.callables.is_empty()) {
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
        let is_echo = echoes_schema(self.contract().map(|contract| &contract.definition.schema), &reply.text);
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
        if wrapped || plan.mode == OutputMode::Universal {
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
        let parts = Parts::of(&contract.schema, &candidate, &violations)?.after(repairs);
        let whole = candidate.to_string().len();
        let shown = contract.definition.schema.to_string().len();
        let full_cost = 2 * whole + shown;
        let patch_cost = 2 * parts.size() + parts.schema.source().to_string().len();
        (forced || patch_cost * 2 < full_cost).then_some(parts)
    }

    pub(crate) fn decide_on_failure(&mut self, plan: CallPlan, error: &CallError) {
        let (kind, message) = match error.kind {
            CallErrorKind::Unavailable => (RunErrorType::BackendUnavailable, error.message.clone()),
            CallErrorKind::Rejected => (RunErrorType::BackendRejected, error.message.clone()),
        };
        let rejection = Rejection {
            kind,
            retry_reason: RetryReason::NoAnswer,
            errors: vec![format!("$: {message}")],
            message,
        };
        // A backend that fails on a response format or a tool may still accept plain text. Some
        // close the connection or return a server error instead of rejecting the request.
        let is_mode_failure = match (error.kind, error.status) {
            (_, Some(status)) => matches!(status, 400 | 404 | 405 | 415 | 422 | 500 | 501 | 502),
            (kind, None) => kind == CallErrorKind::Unavailable,
        };
        match is_mode_failure
            .then(|| self.ladder.next_route(&plan, !self.tools.callables.is_empty()))
            .flatten()
        {
            Some(route) => self.retry(
                rejection,
                CallPlan { request_kind: RequestKind::First, narrow: None, ..plan.on(route) },
            ),
            None => self.escalate_or_fail(rejection),
        }
    }

    /// Plans a retry, or escalates if the retries of this rung are used up.
    pub(crate) fn retry(&mut self, rejection: Rejection, plan: CallPlan) {
        let most = self.retries_max();
        if self.ladder.rung.retries >= most {
            return self.escalate_or_fail(rejection);
        }
        self.ladder.rung.retries += 1;
        let consequence = format!("retry {} of {most}: {}", self.ladder.rung.retries, plan.describe());
        let (errors, cause) = (rejection.errors, Some(rejection.kind));
        self.decisions.note(EventBody::ValidationFailed { errors, consequence, cause });
        self.ladder.call = Some(CallPlan { is_retry: true, ..plan }.into());
    }

    /// Enters the next rung, or fails the run if no rung is left.
    pub(crate) fn escalate_or_fail(&mut self, rejection: Rejection) {
        let index = self.ladder.rung.index;
        if let (Some(from), Some(to)) = (self.ladder.tier(index), self.ladder.next_tier()) {
            let reason = rejection.errors.first().map_or_else(|| rejection.message.clone(), Clone::clone);
            let (from, to, cause) = (from.tier.clone(), to.tier.clone(), Some(rejection.kind));
            self.decisions.note(EventBody::Escalated { from, to, reason, cause });
            self.reset_clarity();
            return self.enter_rung(index + 1);
        }
        let retries = self.usage.retries;
        let plural = if retries == 1 { "retry" } else { "retries" };
        let is_call =
            matches!(rejection.kind, RunErrorType::BackendUnavailable | RunErrorType::BackendRejected);
        let message = if is_call {
            rejection.message
        } else {
            format!("{} after {retries} {plural}", rejection.message)
        };
        let errors = if is_call { Vec::new() } else { rejection.errors };
        self.fail(rejection.kind, message, errors);
    }

    /// Fails the run for a reason that a retry cannot fix.
    pub(crate) fn end(&mut self, kind: RunErrorType, message: String) {
        self.fail(kind, message, Vec::new());
    }

    /// Ends the run from outside. An existing outcome is kept.
    pub(crate) fn interrupt(&mut self, kind: RunErrorType, message: String) {
        if !self.decisions.has_outcome() {
            self.decisions.clear_notes();
            self.end(kind, message);
        }
    }

    /// Rebuilds a failure so that it includes the latest replies.
    pub(crate) fn refresh_failure(&mut self) {
        if let Some(Outcome::Failed(failure)) = self.decisions.outcome() {
            let RunError { kind, message, validation_errors, .. } = failure.error.clone();
            self.fail(kind, message, validation_errors);
        }
    }

    pub(crate) fn fail(&mut self, kind: RunErrorType, message: String, validation_errors: Vec<String>) {
        let mut error = RunError {
            kind,
            message,
            validation_errors,
            last_output: self.usage.replies.last().cloned(),
            calls: self.usage.calls,
            retry_count: self.usage.retries,
            response: None,
        };
        error.response = self.response(&error);
        let mut salvage = self.usage.salvage(self.final_contract());
        // The results of finished subtasks are kept in the salvage.
        if let Some(report) =
            self.children.orchestration.as_ref().and_then(|orchestration| orchestration.report())
        {
            salvage.best_candidate = Some(report);
            salvage.valid_parts = None;
        }
        let receipt = self.usage.receipt(self.usage.strategy, self.final_contract(), Vec::new());
        let failure = Failure { error, salvage, receipt };
        self.decisions.set_outcome(Outcome::Failed(Box::new(failure)));
    }

    /// Returns the contract of the final result, even while the engine asks for a plan.
    fn final_contract(&self) -> Option<&CompiledContract> {
        match &self.children.orchestration {
            Some(orchestration) => orchestration.contract(),
            None => self.contract(),
        }
    }

    /// Returns the failure in the form of the expected result, if that form can express one.
    fn response(&self, error: &RunError) -> Option<Value> {
        if self.final_contract().is_some_and(CompiledContract::is_universal) {
            return serde_json::to_value(UniversalResponse::of_error(error)).ok();
        }
        let uses_actions =
            self.task.as_ref().is_some_and(|task| task.blueprint.protocol == Protocol::Actions);
        uses_actions.then(|| envelope::failure(&error.message))
    }

    /// Returns the rejection of a reply without an answer. Counts replies that should have called
    /// `submit_result`, for the receipt.
    pub(crate) fn no_answer(&mut self, verdict: &Verdict, tool: &str) -> Rejection {
        let is_missing = *verdict == Verdict::NotSubmitted && tool == SUBMIT;
        self.usage.missing_submits += u32::from(is_missing);
        no_answer(verdict, tool)
    }
}

fn no_answer(verdict: &Verdict, tool: &str) -> Rejection {
    let (kind, error, message) = match verdict {
        Verdict::Withheld { error } => {
            (RunErrorType::OutputSchemaValidationFailed, error.clone(), "Output held no result".to_owned())
        }
        Verdict::NotSubmitted => {
            let error =
                if tool == SUBMIT { NOT_SUBMITTED.to_owned() } else { format!("$: {tool} was not called") };
            (RunErrorType::ResultNotSubmitted, error, format!("Agent did not call {tool}"))
        }
        Verdict::Empty { has_reasoning: true } => (
            RunErrorType::OutputSchemaValidationFailed,
            "$: the response held only reasoning and no answer".to_owned(),
            "Output held no answer".to_owned(),
        ),
        Verdict::Empty { has_reasoning: false } => (
            RunErrorType::OutputSchemaValidationFailed,
            "$: the response was empty".to_owned(),
            "Output was empty".to_owned(),
        ),
        Verdict::NoJson { reason } => (
            RunErrorType::OutputSchemaValidationFailed,
            format!("$: no JSON output found ({reason})"),
            "Output held no JSON".to_owned(),
        ),
        _ => (RunErrorType::OutputSchemaValidationFailed, "$: no answer".to_owned(), "No answer".to_owned()),
    };
    Rejection { kind, retry_reason: RetryReason::NoAnswer, errors: vec![error], message }
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

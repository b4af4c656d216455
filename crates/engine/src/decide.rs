//! Decisions that need several parts of the state: rungs, replies, steps, subtasks, retries and
//! failures.

use serde_json::{Value, json};
use slipform_types::{
    AgentCard, CHECKING_TOOL, CallError, CallErrorKind, ChildEnd, EventBody, Failure, INCOMPLETE, Opening,
    Outcome, Protocol, RUN_FAILS, Reply, RunError, RunErrorType, Rung as ReceiptRung, Salvage, SchemaForm,
    StopReason, Strategy, ToolCall, UniversalResponse,
};

use crate::call_plan::{CallPlan, PlannedCall, RequestKind};
use crate::contract::CompiledContract;
use crate::criteria::{self, CRITERIA_PER_CALL};
use crate::envelope::{self, DelegationContext};
use crate::error::Error;
use crate::orchestrator::{Orchestration, SubtasksEnd};
use crate::output_mode::{OutputMode, forced_call_routes, routes, subtask_plan_routes};
use crate::prompt::{Form, RetryReason};
use crate::reply::{
    ActionReply, JudgeContext, ModelReply, Rejection, Source, Verdict, judge, read_action, refusal,
};
use crate::state::State;
use crate::task::Task;
use crate::tool_loop::{CallForm, LoopLimits, Step, opening_id, tool_calls_in};

impl State {
    /// Enters a rung of the escalation ladder and plans its first call.
    pub(crate) fn enter_rung(&mut self, index: usize) {
        let (Some(tier), Some(task)) = (self.ladder.tier(index).cloned(), &self.task) else { return };
        let options = task.contract.as_ref().map(CompiledContract::options);
        let protocol = self.tools.is_active().then_some(task.blueprint.protocol);
        let routes = if self.children.is_planning() {
            subtask_plan_routes(&tier.backend)
        } else {
            match options.filter(|_| task.forced_tool().is_some()) {
                Some(options) => forced_call_routes(options.strategy, &tier.backend),
                None => routes(options.map(|options| options.strategy), protocol, &tier.backend),
            }
        };
        let limits = task.limits();
        self.tools.limits = LoopLimits::of(&limits, routes[0].mode == OutputMode::Grammar);
        let wanted = options.map_or(SchemaForm::Auto, |options| options.schema_form);
        self.ladder.enter(index, routes, Form::of(wanted, tier.backend.small), &limits);
        let (backend, model) = (tier.backend.name, tier.backend.model);
        self.usage.enter_rung(ReceiptRung { tier: tier.tier, backend, model, calls: 0 });
    }

    /// Fails the run if no value satisfies its contract. Every call would be in vain, and some backends would reject it.
    pub(crate) fn fail_if_impossible(&mut self) {
        let part = self.contract().and_then(|contract| contract.schema.impossible_part().map(str::to_owned));
        let Some(part) = part else { return };
        let message = format!("No value satisfies the output schema: {part} allows nothing");
        let errors = vec![format!("{part}: no value satisfies the schema")];
        self.fail(RunErrorType::OutputSchemaValidationFailed, message, errors);
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
            SubtasksEnd::Summarize => self.ask_for_summary(),
            SubtasksEnd::PlanAgain => {
                if let Err(error) = self.ask_for_subtask_plan() {
                    self.end(RunErrorType::ToolFailed, error.to_string());
                }
            }
            SubtasksEnd::Fail { message, errors } => self.fail(RunErrorType::ToolFailed, message, errors),
        }
    }

    /// Asks for the summary of the subtasks that are done.
    fn ask_for_summary(&mut self) {
        let Some(orchestration) = &mut self.children.orchestration else { return };
        self.task = Some(orchestration.begin_summarizing(self.ladder.backend()));
        if orchestration.is_incomplete() {
            self.usage.flag(INCOMPLETE);
        }
        self.enter_rung(self.ladder.rung.index);
    }

    /// Asks for the summary if a plan is missing and earlier plans have results, which failing the run would
    /// withhold. Returns whether it did.
    pub(crate) fn summarize_without_plan(&mut self) -> bool {
        let orchestration = self.children.orchestration.as_ref();
        let has_results = orchestration.is_some_and(|it| it.can_summarize_without_plan());
        if has_results {
            // Invalid plans are not candidates for the result.
            self.usage.clear_candidates();
            self.ask_for_summary();
        }
        has_results
    }

    /// Decides on a reply: begins a step if it calls tools, otherwise examines its answer.
    pub(crate) fn decide_on_reply(&mut self, plan: CallPlan, reply: Reply) {
        let is_complete = refusal(&reply.stop).is_none() && reply.stop != StopReason::Length;
        if self.tools.is_active() && is_complete {
            if let Some(calls) = tool_calls_in(&reply, self.contract()) {
                let form = CallForm::of(plan.protocol);
                return self.begin_step(plan, (calls, form), &reply);
            }
            if plan.protocol == Protocol::Actions {
                return self.decide_on_action(plan, reply);
            }
            if self.must_call_client() {
                return self.require_client_call(plan, &reply);
            }
        }
        self.examine(Source::Reply(ModelReply { plan, reply }));
    }

    /// Decides on a reply under the action protocol.
    fn decide_on_action(&mut self, plan: CallPlan, reply: Reply) {
        let Some(envelope) = &self.tools.envelope else { return };
        let context = self.delegation_context();
        match read_action(envelope, &plan, &reply, (&self.tools.callables.agents, &context)) {
            ActionReply::Call(call, form) => self.begin_step(plan, (vec![call], form), &reply),
            ActionReply::CallWithInventedAnswer { call: (call, form), envelope } => {
                let call_only = Reply { text: envelope.to_string(), ..reply };
                self.begin_step(plan, (vec![call], form), &call_only);
            }
            ActionReply::MentionedCall => {
                let errors = vec!["$: an action has to be the last thing in a response".to_owned()];
                self.correct_envelope(plan, &reply, Rejection::no_action(errors));
            }
            ActionReply::Last(_) if self.must_call_client() => self.require_client_call(plan, &reply),
            ActionReply::Last(action) => self.examine(Source::LastAction(ModelReply { plan, reply }, action)),
            // Where a call is required, the model may omit the envelope.
            ActionReply::NoAction(_)
                if self.must_call_client() && self.client_call_in_text(&reply.text).is_some() =>
            {
                self.require_client_call(plan, &reply);
            }
            // A client that may call tools may also get a text, and models answer without the envelope then.
            ActionReply::NoAction(Verdict::NoJson { .. }) if self.takes_text_of_client() => {
                self.examine(Source::Reply(ModelReply { plan, reply }));
            }
            ActionReply::NoAction(verdict) => {
                self.examine(Source::NoAction(ModelReply { plan, reply }, verdict));
            }
        }
    }

    /// Returns what an agent that is called by an action has to know beside its own task.
    fn delegation_context(&self) -> DelegationContext {
        let task = self.task.as_ref().map(|task| task.input.clone()).unwrap_or_default();
        DelegationContext { task, results: self.tools.results_of_agents() }
    }

    fn begin_step(&mut self, plan: CallPlan, calls: (Vec<ToolCall>, CallForm), reply: &Reply) {
        if self.tools.callables.are_of_client() {
            return self.end_with_client_calls(plan, &calls.0, reply);
        }
        let contract = self.task.as_ref().and_then(|task| task.contract.as_ref());
        match self.tools.begin_step(plan, calls, reply, contract, &self.history) {
            Ok(answers) => answers.into_iter().for_each(|answer| self.decisions.note(answer)),
            Err(message) => self.end(RunErrorType::LimitExceeded, message),
        }
    }

    /// Makes the opening calls of the blueprint, and checks the criteria of the prompt, before the first model
    /// call.
    pub(crate) fn begin_opening_calls(&mut self) {
        let Some(task) = &self.task else { return };
        let mut opening: Vec<(String, Opening)> = Vec::new();
        if self.history.past_runs.is_empty() {
            let calls = task.blueprint.opening.iter().cloned().enumerate();
            opening.extend(calls.map(|(index, call)| (opening_id(index), call)));
        }
        opening.extend(self.prompt_checks(task, &opening));
        if opening.is_empty() {
            return;
        }
        let Some(planned) = self.ladder.call.take() else { return };
        let (known, has_contract) = (&self.history.known_children, task.contract.is_some());
        let answers = self.tools.begin_opening(planned.plan, opening, known, has_contract);
        answers.into_iter().for_each(|answer| self.decisions.note(answer));
    }

    /// Returns the calls that check the criteria of the prompt, without those that opening calls check.
    fn prompt_checks(&self, task: &Task, opening: &[(String, Opening)]) -> Vec<(String, Opening)> {
        if task.blueprint.checks.is_empty() || self.tools.callables.find(CHECKING_TOOL).is_none() {
            return Vec::new();
        }
        let checked: Vec<String> =
            opening.iter().flat_map(|(_, call)| criteria::texts(&call.arguments["checks"])).collect();
        let mut listed = criteria::listed_criteria(task.parameters["prompt"].as_str().unwrap_or_default());
        listed.retain(|criterion| !checked.contains(criterion));
        let turns = self.history.past_runs.iter().flat_map(|run| &run.turns);
        let taken =
            turns.flat_map(|turn| &turn.calls).filter(|call| call.id.starts_with("criteria-")).count();
        let calls = listed.chunks(CRITERIA_PER_CALL).enumerate().map(|(index, criteria)| {
            let call = Opening { tool: CHECKING_TOOL.to_owned(), arguments: json!({"checks": criteria}) };
            (format!("criteria-{}", taken + index + 1), call)
        });
        calls.collect()
    }

    /// Ends the step once every call is answered: plans the next model call, or decides on the
    /// submission of the step.
    pub(crate) fn end_step_if_over(&mut self) {
        let Some(step) = self.tools.end_step() else { return };
        let Step { plan, submission, .. } = *step;
        // A step without a submission is progress and resets the retries. A failed submission is
        // not, even beside other calls.
        if submission.is_none() {
            self.ladder.rung.reset_retries();
        }
        let Some(task) = &self.task else { return };
        let plan = self.ladder.fresh(plan, &task.limits());
        match submission {
            Some(reply) => self.decide_on_reply(plan, reply),
            None => self.ladder.call = Some(plan.into()),
        }
    }

    /// Keeps the beginning of a document whose reply was interrupted.
    pub(crate) fn keep_partial(&mut self, plan: &CallPlan, text: &str) {
        // If the agent has tools, the text may be the arguments of any of them.
        let Some(contract) = self.contract().filter(|_| !self.tools.is_active()) else { return };
        let mut reply = Reply { text: text.to_owned(), stop: StopReason::Length, ..Reply::default() };
        if plan.mode == OutputMode::Tool {
            let (id, name) = (String::new(), contract.tool.name.to_string());
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
        // A backend that rejects a response format or a tool may still accept plain text. Faults of the
        // transport say nothing about the mode. Status 500 is a rejection only if the server blames the request.
        let is_mode_failure = plan.needs_features(!self.tools.callables.is_empty())
            && error.kind == CallErrorKind::Rejected
            && error.status.is_some_and(|status| matches!(status, 400 | 415 | 422 | 500 | 501));
        let may_retry = self.ladder.rung.retries < self.retries_max();
        let route = (is_mode_failure && may_retry).then(|| self.ladder.next_route()).flatten();
        if let Some(route) = route {
            let plan = CallPlan { request_kind: RequestKind::First, narrow: None, ..plan.on(route) };
            return self.retry(rejection, plan);
        }
        // A backend that answered in another mode is available, and its answers did not meet the contract.
        let unmet = self.ladder.rung.unmet.take().filter(|_| is_mode_failure);
        self.escalate_or_fail(unmet.unwrap_or(rejection));
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
        let planned = PlannedCall::from(CallPlan { is_retry: true, ..plan });
        let prepared = self.request_context().map(|context| planned.prepared(&context));
        let correction =
            prepared.and_then(|prepared| Some(prepared.request.messages.last()?.content.clone()));
        self.decisions.note(EventBody::ValidationFailed { errors, consequence, cause, correction });
        self.ladder.call = Some(planned);
    }

    /// Fails the run because of its last answer. If the answer is a further plan, summarizes the subtasks that are
    /// done instead.
    pub(crate) fn fail_answer(&mut self, kind: RunErrorType, message: String, errors: Vec<String>) {
        let summarizes = self.summarize_without_plan();
        let consequence = if summarizes { "the completed subtasks are summarized" } else { RUN_FAILS };
        self.decisions.note(EventBody::ValidationFailed {
            errors: errors.clone(),
            consequence: consequence.to_owned(),
            cause: Some(kind),
            correction: None,
        });
        if !summarizes {
            self.fail(kind, message, errors);
        }
    }

    /// Enters the next rung, or fails the run if no rung is left.
    pub(crate) fn escalate_or_fail(&mut self, rejection: Rejection) {
        let index = self.ladder.rung.index;
        let is_call =
            matches!(rejection.kind, RunErrorType::BackendUnavailable | RunErrorType::BackendRejected);
        let next = self.ladder.next_index(rejection.kind).unwrap_or(usize::MAX);
        if let (Some(from), Some(to)) = (self.ladder.tier(index), self.ladder.tier(next)) {
            let reason = rejection.errors.first().map_or_else(|| rejection.message.clone(), Clone::clone);
            let (from, to, cause) = (from.tier.clone(), to.tier.clone(), Some(rejection.kind));
            // Without a reply there are no violations.
            let errors = if is_call { Vec::new() } else { rejection.errors };
            self.decisions.note(EventBody::Escalated { from, to, reason, errors, cause });
            // The next rung gets the original input, without the follow-up questions.
            if let (Some((input, past_runs)), Some(task)) = (self.acceptance.clarity.reset(), &mut self.task)
            {
                task.input = input;
                self.history.past_runs.truncate(past_runs);
            }
            return self.enter_rung(next);
        }
        let retries = self.usage.retries;
        let plural = if retries == 1 { "retry" } else { "retries" };
        if is_call {
            return self.end(rejection.kind, rejection.message);
        }
        // Under `auto` a tool call is only one of several ways to ask, unless the agent has tools to call.
        let is_auto = self.contract().is_some_and(|contract| contract.options().strategy == Strategy::Auto);
        let is_required = !is_auto || self.tools.is_active() || self.children.is_planning();
        let rejection = if is_required { rejection } else { rejection.without_submission() };
        let message = format!("{} after {retries} {plural}", rejection.message);
        self.fail_answer(rejection.kind, message, rejection.errors);
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
        let is_call = matches!(kind, RunErrorType::BackendUnavailable | RunErrorType::BackendRejected);
        let mut error = RunError {
            kind,
            message,
            validation_errors,
            last_output: self.usage.replies.last().cloned(),
            calls: self.usage.calls,
            retry_count: self.usage.retries,
            call_error: self.usage.call_error.clone().filter(|_| is_call),
            response: None,
        };
        error.response = self.response(&error);
        let salvage = self.salvage();
        let receipt = self.usage.receipt(self.usage.strategy, self.final_contract(), Vec::new());
        let failure = Failure { error, salvage, receipt };
        self.decisions.set_outcome(Outcome::Failed(Box::new(failure)));
    }

    /// Returns the data that a failed run leaves behind, with the results of its subtasks.
    fn salvage(&self) -> Salvage {
        let mut salvage = self.usage.salvage(self.final_contract());
        let Some(orchestration) = &self.children.orchestration else { return salvage };
        salvage.subtasks = orchestration.outcomes();
        // Before the summary, a candidate is a plan. An invalid summary is closer to the result than the subtasks.
        let has_summary = orchestration.is_summarizing() && salvage.best_candidate.is_some();
        if !salvage.subtasks.is_empty() && !has_summary {
            salvage.best_candidate = Some(json!({"subtasks": salvage.subtasks}));
            salvage.valid_parts = None;
        }
        salvage
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
}

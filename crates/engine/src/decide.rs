//! What follows from a reply: a result, another call, the next rung, or a typed failure.

use serde_json::Value;
use slipform_types::{
    BackendInfo, CallError, CallErrorKind, Correction, EventBody, Failure, NOT_SUBMITTED, Outcome, Protocol,
    Repair, Reply, RunError, RunErrorType, Rung as ReceiptRung, SchemaForm, StopReason, Strategy,
    StructuredOutput, Success, ToolCall, UniversalResponse,
};

use crate::clarity::Candidate;
use crate::contract::Enforced;
use crate::criteria;
use crate::envelope;
use crate::judge::{Accepted, Flawed, JudgedReply, SUBMIT, Verdict, judge, message, refusal};
use crate::output_mode::{OutputMode, Route, planning_routes, routes};
use crate::patch::Parts;
use crate::placeholder::placeholders;
use crate::plan::{Ask, Plan};
use crate::prompt::{Form, Why};
use crate::state::{RETRIES_WITHOUT_CONTRACT, RungState, State};
use crate::tool_state::Bounds;
use crate::usage::words;

/// The budget that follows a cut-off reply where neither agent nor backend names one, in tokens.
const BUDGET_MIN: u32 = 2_048;

/// The largest budget that is asked for. Beyond it no backend follows.
const BUDGET_MAX: u32 = 65_536;

/// Characters that a token surely stands for, when an answer has to fit its budget.
const CHARACTERS_A_TOKEN: usize = 2;

/// What is wrong with a reply, in the words of a failure and of a retry.
pub(crate) struct Rejection {
    pub(crate) kind: RunErrorType,
    pub(crate) why: Why,
    pub(crate) errors: Vec<String>,
    pub(crate) message: String,
}

impl Rejection {
    /// A reply that does not satisfy what it is held to.
    pub(crate) fn unmet(why: Why, errors: Vec<String>, message: &str) -> Rejection {
        let kind = RunErrorType::OutputSchemaValidationFailed;
        Rejection { kind, why, errors, message: message.to_owned() }
    }
}

impl State {
    /// Begins with a rung of the ladder.
    pub(crate) fn climb(&mut self, index: usize) {
        let Some(tier) = self.ladder.get(index).cloned() else { return };
        let strategy = self.contract().map(|contract| contract.options().strategy);
        let protocol = self.task.as_ref().filter(|_| self.tools.is_on()).map(|task| task.blueprint.protocol);
        let routes = match self.is_planning() {
            true => planning_routes(&tier.backend),
            false => routes(strategy, protocol, &tier.backend),
        };
        if let Some(task) = &self.task {
            self.tools.bounds = Bounds::of(&task.blueprint.limits, routes[0].mode == OutputMode::Grammar);
        }
        let wanted = self.contract().map_or(SchemaForm::Auto, |contract| contract.options().schema_form);
        let plan = Plan {
            mode: routes[0].mode,
            protocol: routes[0].protocol,
            form: Form::of(wanted, tier.backend.small),
            ask: Ask::First,
            budget: self.first_budget(&tier.backend),
            narrow: None,
            is_retry: false,
        };
        self.plan = Some(plan.into());
        self.rung = RungState { index, routes, ..RungState::default() };
        // Whoever plans and sums up on the same rung has climbed it once.
        let rung = ReceiptRung { tier: tier.tier, backend: tier.backend.name, calls: 0 };
        let is_on = |last: &ReceiptRung| last.tier == rung.tier && last.backend == rung.backend;
        if !self.usage.rungs.last().is_some_and(is_on) {
            self.usage.rungs.push(rung);
        }
    }

    pub(crate) fn first_budget(&self, backend: &BackendInfo) -> Option<u32> {
        let wanted = self.task.as_ref().and_then(|task| task.blueprint.limits.max_tokens);
        match (wanted, backend.max_tokens) {
            (Some(wanted), Some(most)) => Some(wanted.min(most)),
            (wanted, most) => wanted.or(most),
        }
    }

    pub(crate) fn decide_on_reply(&mut self, plan: Plan, reply: &Reply) {
        if self.tools.is_on() && refusal(&reply.stop).is_none() && reply.stop != StopReason::Length {
            if let Some(called) = self.calls_of(reply) {
                return self.begin_step(plan, called, reply);
            }
            if plan.protocol == Protocol::Actions {
                return self.decide_on_envelope(plan, reply);
            }
        }
        let Some(contract) = self.contract() else { return self.decide_on_text(plan, reply) };
        let asked = JudgedReply {
            mode: plan.mode,
            text_counts: contract.options().strategy == Strategy::Auto,
            parts: plan.parts(),
        };
        let verdict = judge(contract, &asked, reply);
        match verdict {
            Verdict::Valid(accepted) => self.accept(plan, accepted, reply),
            Verdict::Refused { message } => self.end(RunErrorType::Refused, message),
            Verdict::Invalid(flawed) => {
                self.usage.failed(&flawed.candidate, &flawed.violations);
                let trouble =
                    Rejection::unmet(Why::Mismatch, flawed.violations.lines(), "Output did not match schema");
                self.ask_again(plan, reply, trouble, Some(flawed));
            }
            Verdict::Truncated { candidate, repairs } => {
                let candidate = match plan.protocol {
                    Protocol::Tools => candidate,
                    Protocol::Actions => candidate.and_then(envelope::result),
                };
                self.cut_off(plan, reply, candidate, repairs);
            }
            other => {
                let tool = contract.tool;
                let trouble = self.no_answer(&other, tool);
                self.ask_again(plan, reply, trouble, None);
            }
        }
    }

    pub(crate) fn accept(&mut self, plan: Plan, accepted: Accepted, reply: &Reply) {
        let found = placeholders(&self.usage.candidates, &accepted.value);
        let reject = self.contract().is_some_and(|contract| contract.options().reject_placeholders);
        if !found.is_empty() {
            if reject {
                let trouble = Rejection::unmet(
                    Why::Placeholder,
                    found.iter().map(ToString::to_string).collect(),
                    "Output held placeholders instead of content",
                );
                return self.correct(plan, reply, trouble);
            }
            self.usage.flag("placeholder");
        }
        self.look_or_finish(plan, accepted, reply);
    }

    /// Takes a result that is held against everything: a plan is carried out, an answer has to be clear.
    pub(crate) fn take(&mut self, plan: Plan, accepted: Accepted, reply: &Reply) {
        if self.is_planning() {
            return self.carry_out(&accepted.value);
        }
        match self.summary_in(&accepted.value) {
            Some(text) => self.take_text(plan, text, reply),
            None => self.clear_or_finish(plan, Candidate::Data(accepted), reply),
        }
    }

    /// The same with a text.
    pub(crate) fn take_text(&mut self, plan: Plan, text: String, reply: &Reply) {
        match self.uncited(&text) {
            Some(trouble) if self.rung.retries < RETRIES_WITHOUT_CONTRACT => {
                let ask = Ask::Plain { reason: trouble.errors[0].trim_start_matches("$: ").to_owned() };
                self.retry(trouble, Plan { ask, ..plan });
            }
            Some(_) => {
                let text = self.with_sources(text);
                self.clear_or_finish(plan, Candidate::Text(text), reply);
            }
            None => self.clear_or_finish(plan, Candidate::Text(text), reply),
        }
    }

    /// Ends the run with a result.
    pub(crate) fn finish(&mut self, plan: Plan, accepted: Accepted, reply: &Reply) {
        for flag in &accepted.flags {
            self.usage.flag(flag);
        }
        if criteria::criteria(&self.tools.decided, &self.tools.undecided).iter().any(|it| it.passed.is_none())
        {
            // What nobody could look at is the model's word.
            self.usage.flag("undecided_criteria");
        }
        self.usage.flag_as_said(reply, accepted.flags.contains(&"patched"));
        if plan.narrow.is_some() {
            self.usage.flag("narrowed");
        }
        let receipt = self.usage.receipt(plan.mode.strategy(), self.contract(), accepted.repairs);
        let success = Success { result_text: None, result_data: Some(accepted.value), receipt };
        self.outcome = Some(Outcome::Completed(Box::new(success)));
    }

    /// A reply to a plain question: any text will do that is complete.
    fn decide_on_text(&mut self, plan: Plan, reply: &Reply) {
        if let Some(message) = refusal(&reply.stop) {
            return self.end(RunErrorType::Refused, message);
        }
        if reply.stop == StopReason::Length {
            return self.cut_off(plan, reply, None, Vec::new());
        }
        let is_forced =
            self.backend().is_some_and(|backend| backend.structured_output == StructuredOutput::Universal);
        let said = if is_forced { message(&reply.text) } else { Ok(reply.text.clone()) };
        let reason = match said {
            Ok(text) if !text.trim().is_empty() => return self.take_text(plan, text, reply),
            Ok(_) => "it was empty".to_owned(),
            Err(error) => error,
        };
        let trouble =
            Rejection::unmet(Why::NoAnswer, vec![format!("$: {reason}")], "The model gave no answer");
        self.retry(trouble, Plan { ask: Ask::Plain { reason }, ..plan });
    }

    pub(crate) fn succeed_with_text(&mut self, text: String) {
        let receipt = self.usage.receipt(None, None, Vec::new());
        let success = Success { result_text: Some(text), result_data: None, receipt };
        self.outcome = Some(Outcome::Completed(Box::new(success)));
    }

    /// What a program wrote; no model was asked.
    pub(crate) fn succeed_with_data(&mut self, value: Value) {
        let receipt = self.usage.receipt(None, self.contract(), Vec::new());
        let success = Success { result_text: None, result_data: Some(value), receipt };
        self.outcome = Some(Outcome::Completed(Box::new(success)));
    }

    /// A reply that ran out of tokens: a larger budget, and only for what is still missing.
    fn cut_off(&mut self, plan: Plan, reply: &Reply, candidate: Option<Value>, repairs: Vec<Repair>) {
        let ceiling = self.backend().and_then(|backend| Some((backend.name.clone(), backend.max_tokens?)));
        let limit = ceiling.filter(|(_, most)| plan.budget == Some(*most));
        let limit =
            limit.map(|(name, most)| format!(" ({most}, backends.{name}.max_tokens)")).unwrap_or_default();
        let message = format!("Output was cut off by the token limit{limit}");
        let errors = vec!["$: the response was cut off by the token limit".to_owned()];
        let trouble = Rejection { kind: RunErrorType::OutputTruncated, why: Why::CutOff, errors, message };
        let Some(backend) = self.backend() else { return };
        let budget = larger(plan.budget, reply.usage.output, backend.max_tokens);
        let grows = budget > plan.budget.unwrap_or(0);
        // A model that wanders, or that cannot be given more room, has to be held to shorter answers.
        let tight = !grows || backend.small;
        let constrained = plan.mode.is_native() || plan.mode == OutputMode::Tool;
        let narrow = (tight && constrained).then_some(budget as usize * CHARACTERS_A_TOKEN);
        if let (Some(contract), Some(candidate)) = (self.contract(), &candidate) {
            let violations = contract.violations(candidate);
            self.usage.failed(candidate, &violations);
        }
        let in_envelope = plan.protocol == Protocol::Actions;
        let rest = self.contract().and_then(|contract| {
            let words = plan.mode != OutputMode::Tool && !in_envelope;
            let wanted = contract.options().correction != Correction::Full && words;
            Parts::rest(&contract.schema, candidate.as_ref().filter(|_| wanted)?)
        });
        let (why, errors) = (trouble.why, trouble.errors.clone());
        let was_calling = !in_envelope && self.tools.is_on() && self.calls_of(reply).is_some();
        let ask = match rest {
            _ if was_calling => Ask::CallAgain,
            Some(parts) => Ask::Patch { why, errors, parts: Box::new(parts.after(repairs)) },
            None if self.contract().is_none() && !in_envelope => Ask::First,
            None => Ask::Full { why, errors, previous: String::new() },
        };
        self.retry(trouble, Plan { ask, budget: Some(budget), narrow, ..plan });
    }

    /// Keeps the beginning of a document that was not waited for.
    pub(crate) fn keep_partial(&mut self, plan: &Plan, text: &str) {
        // Where there are tools to call, what was written may be the arguments of any of them.
        let Some(contract) = self.contract().filter(|_| !self.tools.is_on()) else { return };
        let mut reply = Reply { text: text.to_owned(), stop: StopReason::Length, ..Reply::default() };
        if plan.mode == OutputMode::Tool {
            let (id, name) = (String::new(), contract.tool.to_owned());
            reply.tool_calls.push(ToolCall { id, name, arguments: text.to_owned() });
        }
        let asked = JudgedReply { mode: plan.mode, text_counts: true, parts: plan.parts() };
        let Verdict::Truncated { candidate: Some(candidate), .. } = judge(contract, &asked, &reply) else {
            return;
        };
        let violations = contract.violations(&candidate);
        self.usage.failed(&candidate, &violations);
    }

    /// Asks again for a document: in parts where it is nearly right, in full otherwise, and in another
    /// mode where this one proves not to work.
    pub(crate) fn ask_again(
        &mut self,
        plan: Plan,
        reply: &Reply,
        trouble: Rejection,
        flawed: Option<Flawed>,
    ) {
        let mut plan = plan;
        let (why, errors) = (trouble.why, trouble.errors.clone());
        // Arguments that cannot be read are a call all the same, and are answered as one.
        let called = plan.mode == OutputMode::Tool && trouble.kind != RunErrorType::ResultNotSubmitted;
        if flawed.is_none() && why == Why::NoAnswer && !called {
            if let Some(route) = self.next_route(&plan) {
                plan = plan.on(route);
                plan.ask = Ask::Full { why, errors, previous: words(reply) };
                return self.retry(trouble, plan);
            }
            if plan.mode == OutputMode::Tool {
                if self.rung.reminded {
                    return self.give_up(trouble);
                }
                self.rung.reminded = true;
                plan.ask = Ask::Reminder { content: reply.text.clone() };
                return self.retry(trouble, plan);
            }
        }
        let echoed = echoes_schema(self.contract().map(|contract| &contract.contract.schema), &reply.text);
        let wanted = self.contract().map(|contract| contract.options().schema_form);
        if echoed && wanted == Some(SchemaForm::Auto) {
            plan.form = Form::Compact;
        }
        // A patch without its document says nothing to a model that is asked for all of it.
        let previous = match (&flawed, plan.parts()) {
            (Some(flawed), Some(_)) => flawed.candidate.to_string(),
            _ => words(reply),
        };
        // Parts of an echo are parts of the schema, not of an answer.
        plan.ask = match self.parts(&plan, flawed.filter(|_| !echoed)) {
            Some(parts) => Ask::Patch { why, errors, parts: Box::new(parts) },
            None if plan.mode == OutputMode::Tool && !reply.tool_calls.is_empty() => {
                let calls = self.tools.named_apart(&reply.tool_calls, &self.past);
                Ask::ToolResult { why, errors, content: reply.text.clone(), calls }
            }
            None => Ask::Full { why, errors, previous },
        };
        self.rung.patched |= matches!(plan.ask, Ask::Patch { .. });
        self.retry(trouble, plan);
    }

    /// The parts to ask for, where asking for parts is allowed, possible and worth it.
    fn parts(&self, plan: &Plan, flawed: Option<Flawed>) -> Option<Parts> {
        let contract = self.contract()?;
        let Flawed { candidate, violations, repairs } = flawed?;
        let wrapped = contract.wrapped.is_some() && plan.mode.wants_object();
        if wrapped || plan.mode == OutputMode::Universal {
            return None;
        }
        let forced = match contract.options().correction {
            Correction::Full => return None,
            Correction::Patch => true,
            // One failed patch is enough: then the whole document is asked for.
            Correction::Auto if self.rung.patched || plan.mode == OutputMode::Tool => return None,
            Correction::Auto => false,
        };
        let parts = Parts::of(&contract.schema, &candidate, &violations)?.after(repairs);
        let whole = candidate.to_string().len();
        let shown = contract.contract.schema.to_string().len();
        let saved = 2 * whole + shown;
        let asked = 2 * parts.size() + parts.schema.source().to_string().len();
        (forced || asked * 2 < saved).then_some(parts)
    }

    pub(crate) fn decide_on_failure(&mut self, plan: Plan, error: &CallError) {
        let (kind, message) = match error.kind {
            CallErrorKind::Unavailable => (RunErrorType::BackendUnavailable, error.message.clone()),
            CallErrorKind::Rejected => (RunErrorType::BackendRejected, error.message.clone()),
        };
        let trouble = Rejection { kind, why: Why::NoAnswer, errors: vec![format!("$: {message}")], message };
        // A backend that stumbles over a format or a tool may well take plain words. Some break off in the
        // middle of a reply, or fall over, rather than refuse.
        let about_the_way = match (error.kind, error.status) {
            (_, Some(status)) => matches!(status, 400 | 404 | 405 | 415 | 422 | 500 | 501 | 502),
            (kind, None) => kind == CallErrorKind::Unavailable,
        };
        match about_the_way.then(|| self.next_route(&plan)).flatten() {
            Some(route) => self.retry(trouble, Plan { ask: Ask::First, narrow: None, ..plan.on(route) }),
            None => self.give_up(trouble),
        }
    }

    /// The route after one that proved not to work. Only those that lean on the backend can prove that.
    pub(crate) fn next_route(&mut self, plan: &Plan) -> Option<Route> {
        let calls = plan.protocol == Protocol::Tools && !self.tools.callables.is_empty();
        if !plan.mode.is_native() && plan.mode != OutputMode::Tool && !calls {
            return None;
        }
        let next = *self.rung.routes.get(self.rung.at + 1)?;
        self.rung.at += 1;
        Some(next)
    }

    /// Makes the call if the budget has room for it.
    pub(crate) fn retry(&mut self, trouble: Rejection, plan: Plan) {
        let most = self.retries_max();
        if self.rung.retries >= most {
            return self.give_up(trouble);
        }
        self.rung.retries += 1;
        let consequence = format!("retry {} of {most}: {}", self.rung.retries, plan.describe());
        let (errors, cause) = (trouble.errors, Some(trouble.kind));
        self.notes.push_back(EventBody::ValidationFailed { errors, consequence, cause });
        self.plan = Some(Plan { is_retry: true, ..plan }.into());
    }

    /// The rung's budget is spent: the next one goes on, or the run fails.
    pub(crate) fn give_up(&mut self, trouble: Rejection) {
        let next = self.rung.index + 1;
        if let Some(to) = self.ladder.get(next) {
            let from = self.ladder[self.rung.index].tier.clone();
            let reason = trouble.errors.first().map_or_else(|| trouble.message.clone(), Clone::clone);
            let (to, cause) = (to.tier.clone(), Some(trouble.kind));
            self.notes.push_back(EventBody::Escalated { from, to, reason, cause });
            self.forget_clearing();
            return self.climb(next);
        }
        let retries = self.usage.retries;
        let plural = if retries == 1 { "retry" } else { "retries" };
        let is_call =
            matches!(trouble.kind, RunErrorType::BackendUnavailable | RunErrorType::BackendRejected);
        let message =
            if is_call { trouble.message } else { format!("{} after {retries} {plural}", trouble.message) };
        let errors = if is_call { Vec::new() } else { trouble.errors };
        self.fail(trouble.kind, message, errors);
    }

    /// Ends the run for a reason that no retry helps against.
    pub(crate) fn end(&mut self, kind: RunErrorType, message: String) {
        self.fail(kind, message, Vec::new());
    }

    /// Ends the run from outside. What was decided by then stands.
    pub(crate) fn cut_short(&mut self, kind: RunErrorType, message: String) {
        if self.outcome.is_none() {
            self.notes.clear();
            self.end(kind, message);
        }
    }

    /// A failure once more, with what came in since.
    pub(crate) fn refresh_failure(&mut self) {
        if let Some(Outcome::Failed(failure)) = self.outcome.take() {
            self.fail(failure.error.kind, failure.error.message, failure.error.validation_errors);
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
        let mut salvage = self.usage.salvage(self.promised());
        // What a team has done is not lost with the rest.
        if let Some(report) = self.orchestra.as_ref().and_then(|orchestra| orchestra.report()) {
            salvage.best_candidate = Some(report);
            salvage.valid_parts = None;
        }
        let receipt = self.usage.receipt(self.usage.strategy, self.promised(), Vec::new());
        let failure = Failure { error, salvage, receipt };
        self.outcome = Some(Outcome::Failed(Box::new(failure)));
    }

    /// What the result has to satisfy in the end, whatever is asked for now.
    fn promised(&self) -> Option<&Enforced> {
        match &self.orchestra {
            Some(orchestra) => orchestra.contract(),
            None => self.contract(),
        }
    }

    /// A failure in the form that whoever reads the result expects, where that is known.
    fn response(&self, error: &RunError) -> Option<Value> {
        if self.promised().is_some_and(Enforced::is_universal) {
            return serde_json::to_value(UniversalResponse::of_error(error)).ok();
        }
        let speaks = self.task.as_ref().is_some_and(|task| task.blueprint.protocol == Protocol::Actions);
        speaks.then(|| envelope::failure(&error.message))
    }

    /// What is wrong with a reply that holds no answer, where this tool was to be called. Whoever looks after agents
    /// wants to know how many never submit.
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
        Verdict::Empty { reasoned: true } => (
            RunErrorType::OutputSchemaValidationFailed,
            "$: the response held only reasoning and no answer".to_owned(),
            "Output held no answer".to_owned(),
        ),
        Verdict::Empty { reasoned: false } => (
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
    Rejection { kind, why: Why::NoAnswer, errors: vec![error], message }
}

/// The budget after a cut-off reply: twice as much, within what the backend can give.
fn larger(budget: Option<u32>, written: u64, most: Option<u32>) -> u32 {
    let written = u32::try_from(written).unwrap_or(BUDGET_MAX);
    let doubled = match budget {
        Some(budget) => budget.saturating_mul(2),
        None => written.saturating_mul(2).max(BUDGET_MIN),
    };
    doubled.min(most.unwrap_or(BUDGET_MAX)).max(budget.unwrap_or(1))
}

/// Whether a reply repeats the schema instead of answering it, as weak models do.
fn echoes_schema(schema: Option<&Value>, text: &str) -> bool {
    let asks_for_it = schema.is_some_and(|schema| schema["properties"].get("properties").is_some());
    !asks_for_it && text.contains("\"properties\"") && text.contains("\"type\"")
}

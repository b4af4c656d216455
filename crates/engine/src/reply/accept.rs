//! Acceptance: the pipeline that every answer passes before it is the result of the run.
//!
//! [`State::examine`] takes a new answer in, whatever its source. Three stages need the runner: the
//! answer waits in [`Acceptance`](super::Acceptance), and [`State::handle_criteria_checked`],
//! [`State::handle_paths_checked`] and [`State::handle_score`] continue at the same stage. No other code
//! chooses a stage.

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_schema::{Violation, Violations};
use slipform_types::{
    Blueprint, CHECKING_TOOL, ChildEnd, Clarity, ClientCalls, Outcome, Receipt, Repair, RunErrorType, Success,
};

use super::clarity::{ClarityVerdict, Score, read_score};
use super::extract::{client_text, extract};
use super::judge::Reading;
use super::paths::{PathsVerdict, judge_paths};
use super::placeholder::placeholders;
use super::rejection::{Rejection, violation};
use super::{Answer, Content, ModelReply, Source, Wait};
use crate::children::{INTERNAL_CHILDREN_MAX, children_limit_message};
use crate::error::Error;
use crate::prompt::RetryReason;
use crate::state::{RETRIES_WITHOUT_CONTRACT, State};

/// The violation of a value that is the schema of the contract.
const SCHEMA_REPEATED: &str = "$: the response repeats the schema instead of a value that satisfies it";

/// A stage of acceptance. [`State::accept`] lists them in order.
#[derive(Debug)]
enum Stage {
    /// Reads the value or the text of the answer.
    Extract,
    /// The value satisfies the schema of the contract and does not repeat it.
    Validate,
    /// The value satisfies the rules beyond the schema.
    ExtraRules,
    /// A retry did not replace content by placeholders.
    Placeholders,
    /// The value reports all criteria as they were decided. The runner checks those that no check has
    /// seen.
    Criteria,
    /// The files that the value names exist, and the changed files are reported as they were changed.
    /// `missing` holds the files that the runner did not find, once it has checked them.
    CitedPaths { missing: Option<Vec<String>> },
    /// A summary cites the subtasks that its statements come from.
    CitedSubtasks,
    /// The answer is clear enough. `score` is the end of the scoring call, once it has ended.
    Clarity { score: Option<Result<Score, String>> },
    /// The answer is the result.
    Finish,
}

/// Why an answer does not pass a stage, and what follows.
#[derive(Debug)]
pub(super) enum Stop {
    /// The value violates the contract: its parts or the whole are requested again.
    Invalid(Violations),
    /// The answer is rejected for another reason: the whole is requested again.
    Rejected(Rejection),
    /// The text is not usable: it is requested again, without a schema.
    TextRejected(Rejection),
    /// The reply was cut off by the token limit: more tokens are allowed.
    Truncated { candidate: Option<Value>, repairs: Vec<Repair> },
    /// The answer is not clear: its author is asked these questions.
    Unclear(Vec<String>),
    /// The next rung is asked. Without one the run fails.
    Escalate(Rejection),
    /// The run fails. A retry would not help.
    Failed { kind: RunErrorType, message: String, errors: Vec<String> },
    /// The stage continues after an event of the runner.
    Wait(Wait),
}

impl Stop {
    pub(super) fn refused(message: String) -> Stop {
        Stop::Failed { kind: RunErrorType::Refused, message, errors: Vec::new() }
    }
}

impl State {
    /// Examines a new answer from its first stage on.
    pub(crate) fn examine(&mut self, source: Source) {
        self.accept(Answer { source, content: Content::Unread }, Stage::Extract);
    }

    /// Continues with an answer once the runner has checked the files that it names.
    pub(crate) fn handle_paths_checked(&mut self, missing: &[String]) -> Result<(), Error> {
        let answer = self.acceptance.take_waiting_for_paths();
        if self.decisions.has_outcome() {
            return Ok(());
        }
        let answer = answer.ok_or(Error::Journal("`paths_checked` without a pending path check"))?;
        self.accept(answer, Stage::CitedPaths { missing: Some(missing.to_vec()) });
        Ok(())
    }

    /// Continues with an answer once the criteria that it reports are checked. Returns false if no answer
    /// waits for this call.
    pub(crate) fn handle_criteria_checked(&mut self, call_id: &str, output: &Value) -> bool {
        let Some((answer, input)) = self.acceptance.take_waiting_for_criteria(call_id) else { return false };
        self.tools.criteria.record_report(&input, output);
        self.accept(answer, Stage::Criteria);
        true
    }

    /// Continues with an answer once another agent has scored it, or failed to.
    pub(crate) fn handle_score(&mut self, end: Result<&ChildEnd, String>) {
        let (Some(answer), Some(wanted)) =
            (self.acceptance.take_waiting_for_score(), self.required_clarity())
        else {
            return;
        };
        self.accept(answer, Stage::Clarity { score: Some(read_score(end, &wanted.agent)) });
    }

    /// Takes an answer through the stages of acceptance, from a stage to the end or to the first stage
    /// that it does not pass. This is the only way to a result.
    fn accept(&mut self, mut answer: Answer, from: Stage) {
        let mut stage = from;
        loop {
            let (examined, next) = match stage {
                Stage::Extract => (self.extract(&mut answer), Stage::Validate),
                Stage::Validate => (self.validate(&answer), Stage::ExtraRules),
                Stage::ExtraRules => (self.apply_extra_rules(&answer), Stage::Placeholders),
                Stage::Placeholders => (self.find_placeholders(&answer), Stage::Criteria),
                Stage::Criteria => (self.compare_criteria(&answer), Stage::CitedPaths { missing: None }),
                Stage::CitedPaths { missing } => (self.verify_paths(&answer, missing), Stage::CitedSubtasks),
                Stage::CitedSubtasks => (self.cite_subtasks(&mut answer), Stage::Clarity { score: None }),
                Stage::Clarity { score } => (self.require_clarity(&answer, score), Stage::Finish),
                Stage::Finish => return self.finish(answer),
            };
            match examined {
                Ok(()) => stage = next,
                Err(stop) => return self.decide_on_stop(answer, stop),
            }
        }
    }

    fn decide_on_stop(&mut self, answer: Answer, stop: Stop) {
        match stop {
            Stop::Invalid(violations) => self.correct_invalid(answer, violations),
            Stop::Rejected(rejection) => self.correct(answer.source, rejection, None),
            Stop::TextRejected(rejection) => self.ask_for_text(answer.source, rejection),
            Stop::Truncated { candidate, repairs } => {
                self.retry_truncated(answer.source, candidate, repairs);
            }
            Stop::Unclear(questions) => self.ask_follow_up(answer, &questions),
            Stop::Escalate(rejection) => self.escalate_or_fail(rejection),
            Stop::Failed {
                kind: kind @ (RunErrorType::OutputSchemaValidationFailed | RunErrorType::OutputTruncated),
                message,
                errors,
            } => self.fail_answer(kind, message, errors),
            Stop::Failed { kind, message, errors } => {
                if !self.summarize_without_plan() {
                    self.fail(kind, message, errors);
                }
            }
            Stop::Wait(wait) => self.acceptance.wait(answer, wait),
        }
    }

    fn extract(&mut self, answer: &mut Answer) -> Result<(), Stop> {
        let contract = self.task.as_ref().and_then(|task| task.contract.as_ref());
        if contract.is_none()
            && self.conversation().is_some()
            && let Source::Reply(answered) = &answer.source
        {
            answer.content = client_text(answered, self.ladder.backend())?;
            return Ok(());
        }
        answer.content = extract(&answer.source, contract, self.ladder.backend(), &mut self.usage)?;
        Ok(())
    }

    fn validate(&self, answer: &Answer) -> Result<(), Stop> {
        let Content::Value(reading) = &answer.content else { return Ok(()) };
        if self.contract().is_some_and(|contract| contract.is_repeated_by(&reading.value)) {
            let errors = vec![SCHEMA_REPEATED.to_owned()];
            let message = "Output repeated the schema";
            return Err(Stop::Rejected(Rejection::unmet(RetryReason::Mismatch, errors, message)));
        }
        if reading.is_valid() { Ok(()) } else { Err(Stop::Invalid(reading.violations.clone())) }
    }

    fn apply_extra_rules(&self, answer: &Answer) -> Result<(), Stop> {
        let (Some(value), Some(contract)) = (answer.value(), self.contract()) else { return Ok(()) };
        let violations = contract.extra_violations(value);
        if violations.is_empty() { Ok(()) } else { Err(Stop::Invalid(violations)) }
    }

    fn find_placeholders(&mut self, answer: &Answer) -> Result<(), Stop> {
        let Some(value) = answer.value() else { return Ok(()) };
        let found = placeholders(&self.usage.candidates, value);
        if found.is_empty() {
            return Ok(());
        }
        if self.contract().is_some_and(|contract| contract.options().reject_placeholders) {
            let errors = found.iter().map(ToString::to_string).collect();
            let message = "Output held placeholders instead of content";
            return Err(Stop::Rejected(Rejection::unmet(RetryReason::Placeholder, errors, message)));
        }
        self.usage.flag("placeholder");
        Ok(())
    }

    fn compare_criteria(&mut self, answer: &Answer) -> Result<(), Stop> {
        let (Some(value), Some(agent)) = (answer.value(), self.examined_agent(answer)) else { return Ok(()) };
        let unchecked = self.tools.criteria.unchecked(&agent.checks, value);
        if !unchecked.is_empty() && self.tools.callables.find(CHECKING_TOOL).is_some() {
            return Err(Stop::Wait(Wait::Criteria(self.acceptance.criteria_call(&unchecked))));
        }
        let contradicted = self.tools.criteria.contradictions(&agent.checks, value);
        if contradicted.is_empty() {
            return Ok(());
        }
        let message = "Output contradicted what was checked";
        Err(self.reject_facts(value, contradicted, RetryReason::Contradiction, message))
    }

    fn verify_paths(&mut self, answer: &Answer, missing: Option<Vec<String>>) -> Result<(), Stop> {
        let (Some(value), Some(agent)) = (answer.value(), self.examined_agent(answer)) else { return Ok(()) };
        match judge_paths(&agent, value, &self.tools, missing.as_deref()) {
            PathsVerdict::Right => Ok(()),
            PathsVerdict::Unknown(paths) => Err(Stop::Wait(Wait::Paths(paths))),
            PathsVerdict::Wrong(wrong, reason) => {
                let message = match reason {
                    RetryReason::Changes => "Output did not report the files as they were changed",
                    _ => "Output named files that do not exist or were not changed",
                };
                Err(self.reject_facts(value, wrong, reason, message))
            }
        }
    }

    /// Checks a text summary of subtasks. After a retry, the engine adds the sources itself.
    fn cite_subtasks(&mut self, answer: &mut Answer) -> Result<(), Stop> {
        let Some(orchestration) = &self.children.orchestration else { return Ok(()) };
        if let Some(text) = answer.value().and_then(|value| orchestration.summary_text(value)) {
            answer.content = Content::Text(text);
        }
        let Content::Text(text) = &mut answer.content else { return Ok(()) };
        match orchestration.uncited_rejection(text) {
            None => Ok(()),
            Some(rejection) if self.ladder.rung.retries < RETRIES_WITHOUT_CONTRACT => {
                Err(Stop::TextRejected(rejection))
            }
            Some(_) => {
                *text = orchestration.with_sources(text);
                self.usage.flag("sources_added");
                Ok(())
            }
        }
    }

    /// Requires a score, if the agent wants clarity. Plans and error reports are not scored, nor are incomplete
    /// summaries: their author cannot answer questions about the part that is missing.
    fn require_clarity(&mut self, answer: &Answer, score: Option<Result<Score, String>>) -> Result<(), Stop> {
        let wanted = self.examined_agent(answer).and_then(|agent| agent.clarity.clone());
        let Some(wanted) = wanted.filter(|_| !self.children.is_planning() && !self.is_incomplete_summary())
        else {
            return Ok(());
        };
        let score = match score {
            None if answer.is_error_report() => return Ok(()),
            None => {
                self.acceptance.clarity.begin_answer();
                return Err(self.ask_for_score(&wanted, answer));
            }
            Some(Err(_)) if self.acceptance.clarity.may_try_again() => {
                return Err(self.ask_for_score(&wanted, answer));
            }
            Some(Err(reason)) => return Err(self.fail_unscored(answer, RunErrorType::ToolFailed, &reason)),
            Some(Ok(score)) => score,
        };
        let (verdict, event) = self.acceptance.clarity.record_score(&wanted, &score);
        self.decisions.note(event);
        if verdict == ClarityVerdict::Clear {
            return Ok(());
        }
        let (Score { score, questions }, threshold) = (score, wanted.threshold);
        let reason = format!("a score of {score} is below {threshold}");
        self.keep_unclear_candidate(answer, &reason);
        if verdict == ClarityVerdict::Unclear {
            return Err(Stop::Unclear(questions));
        }
        let message = format!(
            "the answer was not clear after {} rounds: its score is {score}, and {threshold} is wanted",
            self.acceptance.clarity.round()
        );
        let kind = RunErrorType::LimitExceeded;
        if self.ladder.next_tier().is_some() {
            let (retry_reason, errors) = (RetryReason::Mismatch, vec![format!("$: {reason}")]);
            return Err(Stop::Escalate(Rejection { kind, retry_reason, errors, message }));
        }
        let errors = questions.into_iter().map(|question| format!("$: {question}")).collect();
        Err(Stop::Failed { kind, message, errors })
    }

    /// Completes the run with an answer that passed all stages, or executes it if it is a plan.
    fn finish(&mut self, answer: Answer) {
        let reading = match answer.content {
            Content::Unread => return,
            Content::Text(text) => {
                if self.has_called_nothing() {
                    self.usage.flag("no_tool_called");
                }
                let text = match &self.children.orchestration {
                    Some(orchestration) => orchestration.with_missing_subtasks(text),
                    None => text,
                };
                let receipt = self.with_subtasks(self.usage.receipt(None, None, Vec::new()));
                let success = Success { result_text: Some(text), result_data: None, receipt };
                return self.decisions.set_outcome(Outcome::Completed(Box::new(success)));
            }
            Content::Value(reading) if self.children.is_planning() => {
                return self.execute_subtask_plan(&reading.value);
            }
            Content::Value(reading) => reading,
        };
        let Reading { value, repairs, flags, .. } = reading;
        for flag in &flags {
            self.usage.flag(flag);
        }
        let value = self.mark_claims(&answer.source, value);
        let model_reply = answer.source.model_reply();
        if model_reply.is_some() && self.has_called_nothing() {
            self.usage.flag("no_tool_called");
        }
        if let Some(ModelReply { plan, reply }) = model_reply {
            self.usage.add_backend_flags(reply, flags.contains(&"patched"));
            if plan.narrow.is_some() {
                self.usage.flag("narrowed");
            }
        }
        let strategy = model_reply.and_then(|model_reply| model_reply.plan.mode.strategy());
        let receipt = self.usage.receipt(strategy, self.contract(), repairs);
        let receipt = self.with_subtasks(receipt);
        let reply = model_reply.map(|model_reply| &model_reply.reply);
        if let Some(calls) = self.forced_calls(reply, &value, receipt.repairs.is_empty()) {
            let ended = ClientCalls { text: String::new(), calls, receipt };
            return self.decisions.set_outcome(Outcome::ToolCalls(Box::new(ended)));
        }
        let success = Success { result_text: None, result_data: Some(value), receipt };
        self.decisions.set_outcome(Outcome::Completed(Box::new(success)));
    }

    /// Adds the results and failures of the subtasks to the receipt of an incomplete summary.
    fn with_subtasks(&self, mut receipt: Receipt) -> Receipt {
        let orchestration = self.children.orchestration.as_ref().filter(|it| it.is_incomplete());
        receipt.subtasks = orchestration.map(|it| it.outcomes()).unwrap_or_default();
        receipt
    }

    /// Returns whether the agent has something to call and called nothing in its session.
    fn has_called_nothing(&self) -> bool {
        let callables = &self.tools.callables;
        !callables.is_empty()
            && !callables.are_of_client()
            && self.tools.turns.is_empty()
            && self.history.past_runs.is_empty()
    }

    /// Marks the criteria that no check decided: the result depends on the claim of the model. A contract
    /// without room for the mark keeps its value, and the receipt alone names the criteria.
    fn mark_claims(&mut self, source: &Source, value: Value) -> Value {
        let Some(agent) = self.agent_behind(source) else { return value };
        let mut marked = value.clone();
        let claims = self.tools.criteria.mark_claims(&agent.checks, &mut marked);
        if !claims.is_empty() || self.tools.criteria.has_undecided() {
            self.usage.flag("undecided_criteria");
        }
        self.usage.model_claims = claims;
        let is_valid = self.contract().is_none_or(|contract| contract.violations(&marked).is_empty());
        if is_valid { marked } else { value }
    }

    /// Returns the agent whose `checks`, `cites`, `changes` and `clarity` apply to an answer.
    fn examined_agent(&self, answer: &Answer) -> Option<Arc<Blueprint>> {
        self.agent_behind(&answer.source)
    }

    /// Returns the agent that wrote an answer, or `None` for a program.
    fn agent_behind(&self, source: &Source) -> Option<Arc<Blueprint>> {
        let is_program = matches!(source, Source::Program(_));
        self.task.as_ref().filter(|_| !is_program).map(|task| task.blueprint.clone())
    }

    fn is_incomplete_summary(&self) -> bool {
        self.children.orchestration.as_ref().is_some_and(|orchestration| orchestration.is_incomplete())
    }

    fn required_clarity(&self) -> Option<Clarity> {
        self.task.as_ref()?.blueprint.clarity.clone()
    }

    /// Rejects a value that contradicts the facts, and keeps it for the salvage.
    fn reject_facts(
        &mut self,
        value: &Value,
        list: Vec<Violation>,
        retry_reason: RetryReason,
        message: &str,
    ) -> Stop {
        let violations = Violations::capped(list);
        self.usage.record_invalid_candidate(value, &violations);
        Stop::Rejected(Rejection::unmet(retry_reason, violations.lines(), message))
    }

    /// Starts the agent that scores answers.
    fn ask_for_score(&mut self, wanted: &Clarity, answer: &Answer) -> Stop {
        if self.children.started() >= INTERNAL_CHILDREN_MAX {
            let kind = RunErrorType::LimitExceeded;
            return self.fail_unscored(answer, kind, &children_limit_message());
        }
        let question = match (&self.children.orchestration, self.acceptance.clarity.original_question()) {
            (Some(orchestration), _) => orchestration.input().clone(),
            (None, Some(question)) => question.clone(),
            (None, None) => self.task.as_ref().map(|task| task.input.clone()).unwrap_or_default(),
        };
        let question = if question.trim().is_empty() { "(nothing)".to_owned() } else { question };
        let call_id = self.acceptance.clarity.begin_call();
        let parameters = json!({"question": question, "reply": answer.text()});
        self.children.start(call_id.clone(), "clarity", &wanted.agent, parameters);
        Stop::Wait(Wait::Score(call_id))
    }

    fn fail_unscored(&mut self, answer: &Answer, kind: RunErrorType, reason: &str) -> Stop {
        self.keep_unclear_candidate(answer, reason);
        let message = format!("the answer could not be scored: {reason}");
        Stop::Failed { kind, message, errors: Vec::new() }
    }

    /// Keeps an unclear answer as a candidate for the salvage.
    fn keep_unclear_candidate(&mut self, answer: &Answer, reason: &str) {
        let wrong = violation("$", reason.trim_start_matches("$: ").to_owned());
        let violations = Violations { list: vec![wrong], more: 0 };
        self.usage.record_invalid_candidate(&answer.candidate(), &violations);
    }
}

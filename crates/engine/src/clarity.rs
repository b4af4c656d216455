//! Clarity: another agent scores answers, and its follow-up questions go back to the model that
//! answered.

use serde_json::{Value, json};
use slipform_schema::{Violations, universal};
use slipform_types::{ChildEnd, Clarity, EventBody, Reply, RunErrorType};

use crate::call_plan::CallPlan;
use crate::children::{INTERNAL_CHILDREN_MAX, children_limit_message};
use crate::conversation::PastRun;
use crate::decide::Rejection;
use crate::judge::AcceptedResult;
use crate::prompt::{self, RetryReason};
use crate::state::State;
use crate::verify_paths::violation;

/// The maximum number of scoring calls per answer.
const TRIES_MAX: u32 = 2;

/// The maximum number of follow-up questions per round.
const QUESTIONS_MAX: usize = 10;

/// The clarity rounds of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClarityState {
    /// Scored answers on this rung.
    pub(crate) round: u32,
    /// Scoring calls in the whole run, used for their ids.
    scoring_calls: u32,
    /// Scoring calls for the current answer.
    tries: u32,
    /// The original input and the number of past runs before it. `None` until a follow-up question
    /// is asked.
    original_question: Option<(String, usize)>,
    scoring: Option<Box<Scoring>>,
}

/// An answer that is being scored.
#[derive(Debug, Clone)]
struct Scoring {
    call_id: String,
    plan: CallPlan,
    candidate: Candidate,
    reply: Reply,
}

/// An answer that passed all other checks.
#[derive(Debug, Clone)]
pub(crate) enum Candidate {
    Data(AcceptedResult),
    Text(String),
}

impl Candidate {
    /// Returns the answer as text.
    fn text(&self) -> String {
        match self {
            Candidate::Data(accepted) => serde_json::to_string_pretty(&accepted.value).unwrap_or_default(),
            Candidate::Text(text) => text.clone(),
        }
    }

    /// Returns whether the answer reports an error. Error reports are not scored.
    fn is_error(&self) -> bool {
        matches!(self, Candidate::Data(accepted) if universal::reports_error(&accepted.value))
    }

    fn value(&self) -> Value {
        match self {
            Candidate::Data(accepted) => accepted.value.clone(),
            Candidate::Text(text) => text.as_str().into(),
        }
    }
}

impl ClarityState {
    /// Returns whether this call requests the pending score.
    pub(crate) fn is_scoring_call(&self, call_id: &str) -> bool {
        self.scoring.as_ref().is_some_and(|scoring| scoring.call_id == call_id)
    }
}

impl State {
    /// Completes the run with an answer, or has it scored first if the agent requires clarity.
    pub(crate) fn score_or_finish(&mut self, plan: CallPlan, candidate: Candidate, reply: &Reply) {
        self.clarity_state.tries = 0;
        match self.required_clarity().filter(|_| !candidate.is_error()) {
            None => self.conclude(plan, candidate, reply),
            Some(wanted) => self.ask_for_score(&wanted, plan, candidate, reply.clone()),
        }
    }

    fn required_clarity(&self) -> Option<Clarity> {
        self.task.as_ref()?.blueprint.clarity.clone()
    }

    fn ask_for_score(&mut self, wanted: &Clarity, plan: CallPlan, candidate: Candidate, reply: Reply) {
        if self.children.started() >= INTERNAL_CHILDREN_MAX {
            self.keep_unclear_candidate(&candidate, &children_limit_message());
            return self.end(
                RunErrorType::LimitExceeded,
                format!("the answer could not be scored: {}", children_limit_message()),
            );
        }
        let question = match (&self.children.orchestration, &self.clarity_state.original_question, &self.task)
        {
            (Some(orchestration), ..) => orchestration.input().clone(),
            (None, Some((question, _)), _) => question.clone(),
            (None, None, task) => task.as_ref().map(|task| task.input.clone()).unwrap_or_default(),
        };
        let question = if question.trim().is_empty() { "(nothing)".to_owned() } else { question };
        self.clarity_state.scoring_calls += 1;
        self.clarity_state.tries += 1;
        let call_id = format!("clarity-{}", self.clarity_state.scoring_calls);
        let parameters = json!({"question": question, "reply": candidate.text()});
        self.children.start(call_id.clone(), "clarity", &wanted.agent, parameters);
        self.clarity_state.scoring = Some(Box::new(Scoring { call_id, plan, candidate, reply }));
    }

    /// Handles the end of a scoring call.
    pub(crate) fn handle_score(&mut self, end: Result<&ChildEnd, String>) {
        let (Some(scoring), Some(wanted)) = (self.clarity_state.scoring.take(), self.required_clarity())
        else {
            return;
        };
        let Scoring { plan, candidate, reply, .. } = *scoring;
        let score = end.and_then(|end| {
            if !end.is_completed() {
                return Err(end.failure());
            }
            let response = end.result_data.as_ref().unwrap_or(&Value::Null);
            let score = universal::score(response).map(|score| (score, questions(response)));
            score.ok_or_else(|| format!("the agent '{}' gave no score: {}", wanted.agent, end.result()))
        });
        let (score, questions) = match score {
            Ok(scored) => scored,
            Err(_) if self.clarity_state.tries < TRIES_MAX => {
                return self.ask_for_score(&wanted, plan, candidate, reply);
            }
            Err(reason) => {
                self.keep_unclear_candidate(&candidate, &reason);
                return self
                    .end(RunErrorType::ToolFailed, format!("the answer could not be scored: {reason}"));
            }
        };
        self.clarity_state.round += 1;
        let Clarity { threshold, max_rounds, .. } = wanted;
        let (round, is_clear) = (self.clarity_state.round, score >= threshold);
        let is_over = round >= u32::from(max_rounds);
        let consequence = match (is_clear, is_over) {
            (true, _) => "it is clear",
            (false, false) => "its author is asked",
            (false, true) => "no round is left",
        };
        let (follow_ups, consequence) = (questions.clone(), consequence.to_owned());
        self.decisions.note(EventBody::ClarityScored { round, score, threshold, questions, consequence });
        if is_clear {
            return self.conclude(plan, candidate, &reply);
        }
        let reason = format!("$: a score of {score} is below {threshold}");
        self.keep_unclear_candidate(&candidate, &reason);
        if is_over {
            let message = format!(
                "the answer was not clear after {round} rounds: its score is {score}, and {threshold} is wanted"
            );
            let kind = RunErrorType::LimitExceeded;
            let errors: Vec<String> =
                follow_ups.into_iter().map(|question| format!("$: {question}")).collect();
            let has_next_rung = self.ladder.next_tier().is_some();
            if has_next_rung {
                let (retry_reason, errors) = (RetryReason::Mismatch, vec![reason]);
                self.escalate_or_fail(Rejection { kind, retry_reason, errors, message });
            } else {
                self.fail(kind, message, errors);
            }
            return;
        }
        self.ask_follow_up(plan, &follow_ups, &candidate);
    }

    /// Asks follow-up questions: the exchange so far becomes a past run, and the questions become
    /// the next input.
    fn ask_follow_up(&mut self, plan: CallPlan, questions: &[String], answer: &Candidate) {
        // The follow-up is a new request, with its own retries.
        (self.ladder.rung.retries, self.ladder.rung.has_tried_patch, self.ladder.rung.has_reminded) =
            (0, false, false);
        let Some(task) = &mut self.task else { return };
        let input = std::mem::replace(&mut task.input, prompt::clarify(questions));
        let turns = std::mem::take(&mut self.tools.turns);
        self.clarity_state
            .original_question
            .get_or_insert_with(|| (input.clone(), self.history.past_runs.len()));
        self.history.past_runs.push(PastRun { input, turns, answer: answer.text() });
        self.ladder.call = Some(self.ladder.fresh(plan, &task.blueprint.limits).into());
    }

    /// Restores the original input for the next rung, without the follow-up questions.
    pub(crate) fn reset_clarity(&mut self) {
        self.clarity_state.round = 0;
        if let (Some((input, turns)), Some(task)) =
            (self.clarity_state.original_question.take(), &mut self.task)
        {
            task.input = input;
            self.history.past_runs.truncate(turns);
        }
    }

    /// Keeps an unclear answer as a candidate for the salvage.
    fn keep_unclear_candidate(&mut self, candidate: &Candidate, reason: &str) {
        let wrong = violation("$", reason.trim_start_matches("$: ").to_owned());
        self.usage.record_invalid_candidate(&candidate.value(), &Violations { list: vec![wrong], more: 0 });
    }

    fn conclude(&mut self, plan: CallPlan, candidate: Candidate, reply: &Reply) {
        match candidate {
            Candidate::Data(accepted) => self.finish(plan, accepted, reply),
            Candidate::Text(text) => self.finish_with_text(text),
        }
    }
}

fn questions(response: &Value) -> Vec<String> {
    let asked = response["clarity_data"]["follow_up_questions"].as_array().into_iter().flatten();
    asked.filter_map(Value::as_str).map(str::to_owned).take(QUESTIONS_MAX).collect()
}

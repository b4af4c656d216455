//! Answers that have to be clear: another agent scores them, and what it asks goes back to their author.

use serde_json::{Value, json};
use slipform_schema::{Violations, universal};
use slipform_types::{ChildEnd, Clarity, EventBody, Reply, RunErrorType};

use crate::conversation::Past;
use crate::decide::Rejection;
use crate::internal_children::{HIRED_MAX, no_more};
use crate::judge::Accepted;
use crate::plan::{Ask, Plan};
use crate::prompt::{self, Why};
use crate::state::State;
use crate::verify_paths::violation;

/// How often scoring one answer is tried.
const TRIES_MAX: u32 = 2;

/// The most questions that go back at once.
const QUESTIONS_MAX: usize = 10;

/// How clear the answers were so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clearing {
    /// Answers of this rung that were scored.
    pub(crate) round: u32,
    /// Whoever was asked to score, in the whole run.
    asked: u32,
    /// How often this answer was given to someone to score.
    tries: u32,
    /// What was asked at first, and the turns of the session before that, once the author was asked back.
    begun: Option<(String, usize)>,
    scoring: Option<Box<Scoring>>,
}

/// An answer that is being scored.
#[derive(Debug, Clone)]
struct Scoring {
    call_id: String,
    plan: Plan,
    candidate: Candidate,
    reply: Reply,
}

/// An answer that satisfies everything else.
#[derive(Debug, Clone)]
pub(crate) enum Candidate {
    Data(Accepted),
    Text(String),
}

impl Candidate {
    /// The answer as people read it.
    fn text(&self) -> String {
        match self {
            Candidate::Data(accepted) => serde_json::to_string_pretty(&accepted.value).unwrap_or_default(),
            Candidate::Text(text) => text.clone(),
        }
    }

    /// Whether it reports an error: there is nothing in it to be asked about.
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

impl Clearing {
    /// Whether this call asks for a score.
    pub(crate) fn is_scored_by(&self, call_id: &str) -> bool {
        self.scoring.as_ref().is_some_and(|scoring| scoring.call_id == call_id)
    }
}

impl State {
    /// Ends the run with an answer, once it is as clear as the agent wants it.
    pub(crate) fn clear_or_finish(&mut self, plan: Plan, candidate: Candidate, reply: &Reply) {
        self.clearing.tries = 0;
        match self.wanted_clarity().filter(|_| !candidate.is_error()) {
            None => self.conclude(plan, candidate, reply),
            Some(wanted) => self.ask_for_score(&wanted, plan, candidate, reply.clone()),
        }
    }

    fn wanted_clarity(&self) -> Option<Clarity> {
        self.task.as_ref()?.blueprint.clarity.clone()
    }

    fn ask_for_score(&mut self, wanted: &Clarity, plan: Plan, candidate: Candidate, reply: Reply) {
        if self.hires >= HIRED_MAX {
            self.keep_unclear(&candidate, &no_more());
            return self
                .end(RunErrorType::LimitExceeded, format!("the answer could not be scored: {}", no_more()));
        }
        let question = match (&self.orchestra, &self.clearing.begun, &self.task) {
            (Some(orchestra), ..) => orchestra.input().clone(),
            (None, Some((question, _)), _) => question.clone(),
            (None, None, task) => task.as_ref().map(|task| task.input.clone()).unwrap_or_default(),
        };
        let question = if question.trim().is_empty() { "(nothing)".to_owned() } else { question };
        self.clearing.asked += 1;
        self.clearing.tries += 1;
        let call_id = format!("clarity-{}", self.clearing.asked);
        let parameters = json!({"question": question, "reply": candidate.text()});
        self.hire(call_id.clone(), "clarity", &wanted.agent, parameters);
        self.clearing.scoring = Some(Box::new(Scoring { call_id, plan, candidate, reply }));
    }

    /// Somebody has scored the answer, or could not.
    pub(crate) fn scored(&mut self, end: Result<&ChildEnd, String>) {
        let (Some(scoring), Some(wanted)) = (self.clearing.scoring.take(), self.wanted_clarity()) else {
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
            Err(_) if self.clearing.tries < TRIES_MAX => {
                return self.ask_for_score(&wanted, plan, candidate, reply);
            }
            Err(reason) => {
                self.keep_unclear(&candidate, &reason);
                return self
                    .end(RunErrorType::ToolFailed, format!("the answer could not be scored: {reason}"));
            }
        };
        self.clearing.round += 1;
        let Clarity { threshold, max_rounds, .. } = wanted;
        let (round, is_clear) = (self.clearing.round, score >= threshold);
        let is_over = round >= u32::from(max_rounds);
        let consequence = match (is_clear, is_over) {
            (true, _) => "it is clear",
            (false, false) => "its author is asked",
            (false, true) => "no round is left",
        };
        let (asked, consequence) = (questions.clone(), consequence.to_owned());
        self.notes.push_back(EventBody::ClarityScored { round, score, threshold, questions, consequence });
        if is_clear {
            return self.conclude(plan, candidate, &reply);
        }
        let reason = format!("$: a score of {score} is below {threshold}");
        self.keep_unclear(&candidate, &reason);
        if is_over {
            let message = format!(
                "the answer was not clear after {round} rounds: its score is {score}, and {threshold} is wanted"
            );
            let kind = RunErrorType::LimitExceeded;
            let errors: Vec<String> = asked.into_iter().map(|question| format!("$: {question}")).collect();
            let has_more = self.rung.index + 1 < self.ladder.len();
            return match has_more {
                true => self.give_up(Rejection { kind, why: Why::Mismatch, errors: vec![reason], message }),
                false => self.fail(kind, message, errors),
            };
        }
        self.ask_back(plan, &asked, &candidate);
    }

    /// Asks the author: what was said so far is a turn of the conversation, and the questions are the next one.
    fn ask_back(&mut self, plan: Plan, questions: &[String], answer: &Candidate) {
        // Whoever is asked something new has not failed at what was asked before.
        (self.rung.retries, self.rung.patched, self.rung.reminded) = (0, false, false);
        let budget = self.backend().cloned().and_then(|backend| self.first_budget(&backend));
        let Some(task) = &mut self.task else { return };
        let input = std::mem::replace(&mut task.input, prompt::clarify(questions));
        let turns = std::mem::take(&mut self.tools.turns);
        self.clearing.begun.get_or_insert_with(|| (input.clone(), self.past.len()));
        self.past.push(Past { input, turns, answer: answer.text() });
        self.plan = Some(Plan { ask: Ask::First, narrow: None, is_retry: false, budget, ..plan }.into());
    }

    /// Lets another model begin with the question, and not with what was asked back.
    pub(crate) fn forget_clearing(&mut self) {
        self.clearing.round = 0;
        if let (Some((input, turns)), Some(task)) = (self.clearing.begun.take(), &mut self.task) {
            task.input = input;
            self.past.truncate(turns);
        }
    }

    /// An answer that was not clear may be all that there is in the end.
    fn keep_unclear(&mut self, candidate: &Candidate, reason: &str) {
        let wrong = violation("$", reason.trim_start_matches("$: ").to_owned());
        self.usage.failed(&candidate.value(), &Violations { list: vec![wrong], more: 0 });
    }

    fn conclude(&mut self, plan: Plan, candidate: Candidate, reply: &Reply) {
        match candidate {
            Candidate::Data(accepted) => self.finish(plan, accepted, reply),
            Candidate::Text(text) => self.succeed_with_text(text),
        }
    }
}

fn questions(response: &Value) -> Vec<String> {
    let asked = response["clarity_data"]["follow_up_questions"].as_array().into_iter().flatten();
    asked.filter_map(Value::as_str).map(str::to_owned).take(QUESTIONS_MAX).collect()
}

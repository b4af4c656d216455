//! Clarity: another agent scores answers, and its follow-up questions go back to the model that
//! answered.

use serde_json::Value;
use slipform_schema::universal;
use slipform_types::{ChildEnd, Clarity, EventBody};

/// The maximum number of scoring calls per answer.
const TRIES_MAX: u32 = 2;

/// The maximum number of follow-up questions per round.
const QUESTIONS_MAX: usize = 10;

/// The clarity rounds of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClarityRounds {
    /// Scored answers on this rung.
    round: u32,
    /// Scoring calls in the whole run, used for their ids.
    scoring_calls: u32,
    /// Scoring calls for the current answer.
    tries: u32,
    /// The original input and the number of past runs before it. `None` until a follow-up question
    /// is asked.
    original_question: Option<(String, usize)>,
}

/// The score of an answer, with the questions that it leaves open.
#[derive(Debug)]
pub(super) struct Score {
    pub(super) score: u8,
    pub(super) questions: Vec<String>,
}

/// What follows from the score of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClarityVerdict {
    /// The answer is clear.
    Clear,
    /// Its author is asked.
    Unclear,
    /// The answer is not clear, and no round is left.
    NoRoundLeft,
}

impl ClarityRounds {
    /// Begins to score another answer.
    pub(super) fn begin_answer(&mut self) {
        self.tries = 0;
    }

    /// Returns whether the current answer may be scored once more, after a scoring call that failed.
    pub(super) fn may_try_again(&self) -> bool {
        self.tries < TRIES_MAX
    }

    /// Counts a scoring call and returns its id.
    pub(super) fn begin_call(&mut self) -> String {
        self.scoring_calls += 1;
        self.tries += 1;
        format!("clarity-{}", self.scoring_calls)
    }

    /// Returns the input that a score refers to, if follow-up questions replaced it.
    pub(super) fn original_question(&self) -> Option<&String> {
        self.original_question.as_ref().map(|(input, _)| input)
    }

    /// Remembers the first input of the run, and the number of past runs before it.
    pub(super) fn record_question(&mut self, input: &str, past_runs: usize) {
        self.original_question.get_or_insert_with(|| (input.to_owned(), past_runs));
    }

    /// Returns the number of answers that were scored on this rung.
    pub(super) fn round(&self) -> u32 {
        self.round
    }

    /// Counts a scored answer. Returns what follows and the event that records it.
    pub(super) fn record_score(&mut self, wanted: &Clarity, scored: &Score) -> (ClarityVerdict, EventBody) {
        self.round += 1;
        let Clarity { threshold, max_rounds, .. } = *wanted;
        let (verdict, consequence) = if scored.score >= threshold {
            (ClarityVerdict::Clear, "it is clear")
        } else if self.round < u32::from(max_rounds) {
            (ClarityVerdict::Unclear, "its author is asked")
        } else {
            (ClarityVerdict::NoRoundLeft, "no round is left")
        };
        let event = EventBody::ClarityScored {
            round: self.round,
            score: scored.score,
            threshold,
            questions: scored.questions.clone(),
            consequence: consequence.to_owned(),
        };
        (verdict, event)
    }

    /// Begins the rounds of the next rung. Returns the original input and the number of past runs
    /// before it, if follow-up questions replaced it.
    pub(crate) fn reset(&mut self) -> Option<(String, usize)> {
        self.round = 0;
        self.original_question.take()
    }
}

/// Returns the score of an ended scoring call, or the reason why it has none.
pub(super) fn read_score(end: Result<&ChildEnd, String>, agent: &str) -> Result<Score, String> {
    let end = end?;
    if !end.is_completed() {
        return Err(end.failure());
    }
    let response = end.result_data.as_ref().unwrap_or(&Value::Null);
    match universal::score(response) {
        Some(score) => Ok(Score { score, questions: questions(response) }),
        None => Err(format!("the agent '{agent}' gave no score: {}", end.result())),
    }
}

fn questions(response: &Value) -> Vec<String> {
    let asked = response["clarity_data"]["follow_up_questions"].as_array().into_iter().flatten();
    let asked = asked.filter_map(Value::as_str).filter(|question| !question.trim().is_empty());
    asked.map(str::to_owned).take(QUESTIONS_MAX).collect()
}

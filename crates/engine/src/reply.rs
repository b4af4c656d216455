//! From a reply to a result.
//!
//! - `accept`: the pipeline that every answer passes before it is the result of the run.
//! - `extract`: its first stage, which reads the answer of a model or a program.
//! - `judge`: turns the text of a reply into a value with its repairs and violations.
//! - `action`: reads replies under the action protocol.
//! - `placeholder`, `paths`, `clarity`: the stages that compare an answer with what is known.
//! - `rejection`: why an answer is rejected.
//! - `correct`: asks again for a rejected answer.

mod accept;
mod action;
mod clarity;
mod correct;
mod extract;
mod judge;
mod paths;
mod placeholder;
mod rejection;

use serde_json::{Value, json};
use slipform_schema::universal;
use slipform_types::{CHECKING_TOOL, Repair, Reply};

use crate::action::ToolRun;
use crate::call_plan::CallPlan;

pub(crate) use action::{ActionReply, read_action};
pub(crate) use clarity::ClarityRounds;
pub(crate) use judge::{
    DISCARDING_REPAIRS, JudgeContext, SUBMIT, SUBMITTED_TWICE, Verdict, accepted_arguments, judge,
    omitted_null, refusal, relocate, repair,
};
pub(crate) use rejection::{Rejection, violation};

use judge::Reading;

/// The acceptance of answers in a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acceptance {
    waiting: Option<Box<Waiting>>,
    /// The number of calls so far that checked reported criteria.
    criteria_calls: u32,
    pub(crate) clarity: ClarityRounds,
}

/// An answer whose acceptance continues when the runner has appended an event.
#[derive(Debug, Clone)]
struct Waiting {
    answer: Answer,
    wait: Wait,
}

/// The event that an answer waits for.
#[derive(Debug, Clone)]
enum Wait {
    /// `paths_checked` for these files, sorted, without duplicates.
    Paths(Vec<String>),
    /// `post_tool` for this check of criteria.
    Criteria(ToolRun),
    /// The end of the scoring call with this id.
    Score(String),
}

impl Acceptance {
    /// Returns the files that the runner has to check.
    pub(crate) fn paths_to_check(&self) -> Option<&[String]> {
        match self.waiting.as_deref() {
            Some(Waiting { wait: Wait::Paths(paths), .. }) => Some(paths),
            _ => None,
        }
    }

    /// Returns the check of criteria that the runner has to make.
    pub(crate) fn criteria_to_check(&self) -> Option<&ToolRun> {
        match self.waiting.as_deref() {
            Some(Waiting { wait: Wait::Criteria(call), .. }) => Some(call),
            _ => None,
        }
    }

    /// Returns the check of these criteria, as a tool call.
    fn criteria_call(&mut self, criteria: &[String]) -> ToolRun {
        self.criteria_calls += 1;
        ToolRun {
            call_id: format!("reported-{}", self.criteria_calls),
            name: CHECKING_TOOL.to_owned(),
            arguments: json!({"checks": criteria}),
        }
    }

    /// Returns whether this call requests the score that an answer waits for.
    pub(crate) fn is_scoring_call(&self, call_id: &str) -> bool {
        matches!(self.waiting.as_deref(), Some(Waiting { wait: Wait::Score(id), .. }) if id == call_id)
    }

    fn wait(&mut self, answer: Answer, wait: Wait) {
        self.waiting = Some(Box::new(Waiting { answer, wait }));
    }

    /// Returns the answer that waits for checked paths.
    fn take_waiting_for_paths(&mut self) -> Option<Answer> {
        let waiting = self.waiting.take_if(|waiting| matches!(waiting.wait, Wait::Paths(_)));
        waiting.map(|waiting| waiting.answer)
    }

    /// Returns the answer that waits for this check of criteria, with the arguments of the check.
    fn take_waiting_for_criteria(&mut self, call_id: &str) -> Option<(Answer, Value)> {
        let is_it = |wait: &Wait| matches!(wait, Wait::Criteria(call) if call.call_id == call_id);
        let Waiting { answer, wait } = *self.waiting.take_if(|waiting| is_it(&waiting.wait))?;
        let Wait::Criteria(call) = wait else { return None };
        Some((answer, call.arguments))
    }

    /// Returns the answer that waits for a score.
    fn take_waiting_for_score(&mut self) -> Option<Answer> {
        let waiting = self.waiting.take_if(|waiting| matches!(waiting.wait, Wait::Score(_)));
        waiting.map(|waiting| waiting.answer)
    }
}

/// An answer on its way through the stages of acceptance.
#[derive(Debug, Clone)]
struct Answer {
    source: Source,
    content: Content,
}

/// Where an answer comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// The text or the submission of a reply.
    Reply(ModelReply),
    /// The last action of a model, under the action protocol.
    LastAction(ModelReply, LastAction),
    /// A reply that does not follow the action protocol. It can still be the result itself, on
    /// servers that force the universal response on every reply.
    NoAction(ModelReply, Verdict),
    /// The standard output of a program.
    Program(String),
}

/// A reply with the plan of its call.
#[derive(Debug, Clone)]
pub(crate) struct ModelReply {
    pub(crate) plan: CallPlan,
    pub(crate) reply: Reply,
}

/// The last action of a model, with the repairs of its envelope.
#[derive(Debug, Clone)]
pub(crate) struct LastAction {
    content: String,
    parameters: Option<Value>,
    repairs: Vec<Repair>,
}

/// The content of an answer.
#[derive(Debug, Clone)]
enum Content {
    /// Not extracted yet.
    Unread,
    /// A value, for a run with a contract and for a program.
    Value(Reading),
    /// A text, for a run without a contract.
    Text(String),
}

impl Source {
    /// Returns the reply of the model, or `None` for a program.
    fn model_reply(&self) -> Option<&ModelReply> {
        match self {
            Source::Reply(model_reply)
            | Source::LastAction(model_reply, _)
            | Source::NoAction(model_reply, _) => Some(model_reply),
            Source::Program(_) => None,
        }
    }

    fn into_model_reply(self) -> Option<ModelReply> {
        match self {
            Source::Reply(model_reply)
            | Source::LastAction(model_reply, _)
            | Source::NoAction(model_reply, _) => Some(model_reply),
            Source::Program(_) => None,
        }
    }
}

impl Answer {
    /// Returns the value, unless the answer is a text.
    fn value(&self) -> Option<&Value> {
        match &self.content {
            Content::Value(reading) => Some(&reading.value),
            Content::Unread | Content::Text(_) => None,
        }
    }

    /// Returns the answer as text, as another agent or the next request shows it.
    fn text(&self) -> String {
        match &self.content {
            Content::Value(reading) => serde_json::to_string_pretty(&reading.value).unwrap_or_default(),
            Content::Text(text) => text.clone(),
            Content::Unread => String::new(),
        }
    }

    /// Returns the answer as a candidate for the salvage.
    fn candidate(&self) -> Value {
        match &self.content {
            Content::Value(reading) => reading.value.clone(),
            Content::Text(text) => text.as_str().into(),
            Content::Unread => Value::Null,
        }
    }

    /// Returns whether the answer reports an error. Error reports are not scored.
    fn is_error_report(&self) -> bool {
        self.value().is_some_and(universal::reports_error)
    }
}

//! The universal response: one form that all agents fill in, for servers that know one schema for everything.
//!
//! The types ask for what the pairing rules ask for, which is more than the schema does: a response that satisfies
//! both can be read into them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value};

use crate::RunError;

/// A response in the form that all agents share. The form has no members but these; its sections keep in `more` what
/// they do not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniversalResponse {
    /// Who responds, or that something went wrong.
    pub response_type: ResponseType,
    /// How it went.
    pub status: ResponseStatus,
    /// The answer, explanation or summary, for people.
    pub message: String,
    /// A plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning_data: Option<PlanningData>,
    /// What was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_data: Option<VerificationData>,
    /// How clear a reply is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarity_data: Option<ClarityData>,
    /// What was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub research_data: Option<ResearchData>,
    /// What an answer rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_data: Option<AnswerData>,
    /// Whatever an agent of one's own has to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_fields: Option<Map<String, Value>>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_details: Option<ErrorDetails>,
}

impl UniversalResponse {
    /// The response for whoever reads nothing else: a run that failed.
    pub fn of_error(error: &RunError) -> UniversalResponse {
        let mut told = error.message.clone();
        if !error.validation_errors.is_empty() {
            told = format!("{told}: {}", error.validation_errors.join("; "));
        }
        UniversalResponse {
            response_type: ResponseType::Error,
            status: ResponseStatus::Error,
            message: error.message.clone(),
            planning_data: None,
            verification_data: None,
            clarity_data: None,
            research_data: None,
            answer_data: None,
            custom_fields: None,
            error_details: Some(ErrorDetails {
                error_code: Some(error.kind.name().to_owned()),
                error_message: Some(told),
                suggested_action: Some(error.kind.suggested_action().to_owned()),
                more: Map::new(),
            }),
        }
    }
}

/// Who responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseType {
    /// An agent that plans.
    Planning,
    /// An agent that answers questions.
    Answer,
    /// An agent that checks criteria.
    Verification,
    /// An agent that scores replies.
    Clarity,
    /// An agent that looks things up.
    Research,
    /// An agent of one's own.
    Custom,
    /// Any agent that could not do its work.
    Error,
}

impl ResponseType {
    /// The name in a response.
    pub fn name(self) -> &'static str {
        match self {
            ResponseType::Planning => "planning",
            ResponseType::Answer => "answer",
            ResponseType::Verification => "verification",
            ResponseType::Clarity => "clarity",
            ResponseType::Research => "research",
            ResponseType::Custom => "custom",
            ResponseType::Error => "error",
        }
    }
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResponseStatus {
    /// The work is done.
    #[serde(rename = "success")]
    Success,
    /// Something has to be said first.
    #[serde(rename = "needs_clarification")]
    NeedsClarification,
    /// The work could not be done.
    #[serde(rename = "error")]
    Error,
    /// All that was checked holds.
    #[serde(rename = "PASS")]
    Pass,
    /// What was checked does not hold.
    #[serde(rename = "FAIL")]
    Fail,
    /// Some of what was checked holds.
    #[serde(rename = "PARTIAL")]
    Partial,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanningData {
    /// The plan in short.
    pub summary: String,
    /// What is to be done, in order.
    pub steps: Vec<PlanStep>,
    /// What has to be there first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<String>>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanStep {
    /// Its number.
    #[serde(deserialize_with = "whole")]
    pub step_number: i64,
    /// What is to be done.
    pub action: String,
    /// How.
    pub details: String,
    /// How long it takes.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub estimated_minutes: Option<i64>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerificationData {
    /// Each criterion, and whether it is met.
    pub checks: Vec<Check>,
    /// What could be done about those that are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<String>>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// One criterion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What was asked for.
    pub criterion: String,
    /// Whether it is met.
    pub passed: bool,
    /// What was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// How clear a reply is: scores from 0 to 100.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClarityData {
    /// Whether everything was said.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub completeness_score: Option<u8>,
    /// Whether it can be understood.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub clarity_score: Option<u8>,
    /// Whether it is right.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub accuracy_score: Option<u8>,
    /// All in all.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub total_score: Option<u8>,
    /// What is to be asked of whoever replied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_up_questions: Option<Vec<String>>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResearchData {
    /// One after the other.
    pub findings: Vec<Finding>,
    /// Where it was looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is about.
    pub topic: String,
    /// What it is.
    pub description: String,
    /// The file or folder that it was found in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_file: Option<String>,
    /// How much it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relevance: Option<Level>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What an answer rests on. The answer itself is the response's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerData {
    /// How sure the agent is.
    pub confidence: Level,
    /// Where it was looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
    /// Whether there is more to be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_up_needed: Option<bool>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// How much of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Much.
    High,
    /// Some.
    Medium,
    /// Little.
    Low,
}

/// What went wrong.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetails {
    /// A name for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// What it was, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// What can be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_action: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Integers below this are exact as doubles.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

/// A whole number. To JSON Schema 3.0 is one as well, to serde it is not.
fn whole<'de, D: Deserializer<'de>, N: TryFrom<i64>>(deserializer: D) -> Result<N, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let exact = |it: &f64| it.fract() == 0.0 && it.abs() < EXACT_BELOW;
    let of_double = || number.as_f64().filter(exact).map(|it| it as i64);
    let found = number.as_i64().or_else(of_double).and_then(|it| N::try_from(it).ok());
    found.ok_or_else(|| D::Error::custom(format!("{number} is not a whole number that can be used here")))
}

/// The same for a member that may be left out.
fn maybe_whole<'de, D: Deserializer<'de>, N: TryFrom<i64>>(deserializer: D) -> Result<Option<N>, D::Error> {
    whole(deserializer).map(Some)
}

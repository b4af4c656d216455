//! The universal response: one structure for all agents, for servers that enforce one schema for every
//! request.
//!
//! The types require what the pairing rules in `slipform-schema` require, which is more than the schema
//! requires. A response that satisfies both deserializes into them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value};

use crate::RunError;

/// A response in the structure that all agents share. Unknown members are refused here; sections keep unknown
/// members in `more`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniversalResponse {
    /// The type of the responding agent, or `error`.
    pub response_type: ResponseType,
    /// The status of the response.
    pub status: ResponseStatus,
    /// The answer, explanation or summary, for people.
    pub message: String,
    /// The section of planning agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning_data: Option<PlanningData>,
    /// The section of verifying agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_data: Option<VerificationData>,
    /// The section of scoring agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarity_data: Option<ClarityData>,
    /// The section of researching agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub research_data: Option<ResearchData>,
    /// The section of answering agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_data: Option<AnswerData>,
    /// The members of custom agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_fields: Option<Map<String, Value>>,
    /// The details of an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_details: Option<ErrorDetails>,
}

impl UniversalResponse {
    /// Returns whether a result is a universal response that reports an error instead of a result.
    pub fn reports_error(result: &Value) -> bool {
        let is_error = |name: &str| result[name] == "error";
        is_error("response_type") && is_error("status") && result["message"].is_string()
    }

    /// Creates the response for a failed run.
    pub fn of_error(error: &RunError) -> UniversalResponse {
        let mut message = error.message.clone();
        if !error.validation_errors.is_empty() {
            message = format!("{message}: {}", error.validation_errors.join("; "));
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
                error_message: Some(message),
                suggested_action: Some(error.kind.suggested_action().to_owned()),
                more: Map::new(),
            }),
        }
    }
}

/// The type of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseType {
    /// A response of a planning agent.
    Planning,
    /// A response of an agent that answers questions.
    Answer,
    /// A response of an agent that verifies criteria.
    Verification,
    /// A response of an agent that scores replies.
    Clarity,
    /// A response of a researching agent.
    Research,
    /// A response of a custom agent.
    Custom,
    /// An error of any agent.
    Error,
}

impl ResponseType {
    /// Returns the name in a response.
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

/// The status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResponseStatus {
    /// The work is done.
    #[serde(rename = "success")]
    Success,
    /// The agent needs further information.
    #[serde(rename = "needs_clarification")]
    NeedsClarification,
    /// The agent could not do its work.
    #[serde(rename = "error")]
    Error,
    /// Every check passed.
    #[serde(rename = "PASS")]
    Pass,
    /// At least one check failed.
    #[serde(rename = "FAIL")]
    Fail,
    /// Some checks passed.
    #[serde(rename = "PARTIAL")]
    Partial,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanningData {
    /// A summary of the plan.
    pub summary: String,
    /// The steps, in order.
    pub steps: Vec<PlanStep>,
    /// The prerequisites of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<String>>,
    /// Members that the type does not name.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanStep {
    /// The number of the step, from 1.
    #[serde(deserialize_with = "whole")]
    pub step_number: i64,
    /// The action to perform.
    pub action: String,
    /// Instructions for the action.
    pub details: String,
    /// The estimated duration, in minutes.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub estimated_minutes: Option<i64>,
    /// Members that the type does not name.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The checks of a verification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerificationData {
    /// Each criterion and its result.
    pub checks: Vec<Check>,
    /// Suggestions for failed criteria.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<String>>,
    /// Members that the type does not name.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// One checked criterion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The criterion, as requested.
    pub criterion: String,
    /// Whether the criterion is met.
    pub passed: bool,
    /// The observation that led to the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Members that the type does not name.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The clarity of a reply, as scores from 0 to 100.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClarityData {
    /// The score for completeness.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub completeness_score: Option<u8>,
    /// The score for understandability.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub clarity_score: Option<u8>,
    /// The score for correctness.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub accuracy_score: Option<u8>,
    /// The total score.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub total_score: Option<u8>,
    /// Questions to the author of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_up_questions: Option<Vec<String>>,
    /// Members that the type does not name.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The findings of a research.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResearchData {
    /// The individual findings.
    pub findings: Vec<Finding>,
    /// The sources that were consulted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
    /// Members that the type does not name.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The topic of the finding.
    pub topic: String,
    /// The finding itself.
    pub description: String,
    /// The file or folder that contains the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_file: Option<String>,
    /// The importance of the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relevance: Option<Level>,
    /// Members that the type does not name.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The basis of an answer. The answer itself is the response's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerData {
    /// The agent's confidence in the answer.
    pub confidence: Level,
    /// The sources that were consulted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
    /// Whether further questions are necessary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_up_needed: Option<bool>,
    /// Members that the type does not name.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A level of confidence or relevance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Highest level.
    High,
    /// Medium level.
    Medium,
    /// Lowest level.
    Low,
}

/// The details of an error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetails {
    /// The type of error, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The message, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The recommended action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_action: Option<String>,
    /// Members that the type does not name.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Integers below this are exact as doubles.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

/// Deserializes a whole number. JSON Schema accepts `3.0` as an integer; serde does not.
fn whole<'de, D: Deserializer<'de>, N: TryFrom<i64>>(deserializer: D) -> Result<N, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let is_exact = |float: &f64| float.fract() == 0.0 && float.abs() < EXACT_BELOW;
    let from_double = || number.as_f64().filter(is_exact).map(|float| float as i64);
    let found = number.as_i64().or_else(from_double).and_then(|integer| N::try_from(integer).ok());
    found.ok_or_else(|| D::Error::custom(format!("{number} is not a whole number that can be used here")))
}

/// Deserializes a whole number that may be missing.
fn maybe_whole<'de, D: Deserializer<'de>, N: TryFrom<i64>>(deserializer: D) -> Result<Option<N>, D::Error> {
    whole(deserializer).map(Some)
}

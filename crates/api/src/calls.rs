//! The model calls of a run: how each was asked, what came back and what became of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipform_types::{CallError, Request, ToolCall, Usage};
use utoipa::ToSchema;

use crate::check::{RepairView, Span};
use crate::openapi::CallErrorSchema;

/// The model calls of a run, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallList {
    /// The calls.
    pub calls: Vec<CallView>,
}

/// One model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallView {
    /// `seq` of the event that holds the reply or the failure.
    pub seq: u64,
    /// Number of the call in the run, from 1.
    pub number: u32,
    /// When the call ended.
    pub timestamp: String,
    /// Tier of the call.
    pub tier: Option<String>,
    /// Backend of the call.
    pub backend: Option<String>,
    /// Model that the request named.
    pub model: Option<String>,
    /// Strategy, form of the schema and kind of correction, for people.
    pub asked: Option<String>,
    /// The request, derived from the journal; null if this server cannot derive it.
    #[schema(value_type = Option<Object>)]
    pub request: Option<Request>,
    /// The reply; null if the call failed.
    pub reply: Option<ReplyView>,
    /// Why the call failed; null if it did not.
    #[schema(value_type = Option<CallErrorSchema>)]
    pub error: Option<CallError>,
    /// The part of the reply that was read as the result.
    pub source: Option<ReplySource>,
    /// The text of that part.
    pub source_text: Option<String>,
    /// What was found in that text; null without a contract.
    pub extraction: Option<ExtractionView>,
    /// Violations of the contract, as `$.path: message`.
    pub violations: Vec<String>,
    /// What became of the reply.
    pub outcome: CallOutcome,
    /// What followed a rejected reply, for people.
    pub consequence: Option<String>,
    /// The message that the retry sent to the model.
    pub correction: Option<String>,
}

/// What a model replied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplyView {
    /// The answer, without reasoning.
    pub text: String,
    /// The reasoning, if the backend separates it from the answer.
    pub reasoning: Option<String>,
    /// The tool calls.
    #[schema(value_type = Vec<Object>)]
    pub tool_calls: Vec<ToolCall>,
    /// Why the model stopped, such as `finished` or `length`.
    pub stop_reason: String,
    /// The tokens of the call.
    #[schema(value_type = Object)]
    pub usage: Usage,
}

/// A part of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplySource {
    /// The text.
    Text,
    /// The arguments of the call of `submit_result`.
    SubmitResult,
}

/// The JSON found in a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExtractionView {
    /// Whether the text contains JSON.
    pub found: bool,
    /// The JSON; null if none was found.
    pub value: Option<Value>,
    /// The place of the JSON in the text.
    #[schema(value_type = Option<Vec<u64>>, min_items = 2, max_items = 2)]
    pub document: Option<Span>,
    /// Every change between the text and the JSON.
    pub repairs: Vec<RepairView>,
}

/// What became of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// It is the result.
    Accepted,
    /// It does not satisfy the contract, or the run ended without a result.
    Rejected,
    /// The call failed.
    Failed,
    /// The run went on with it, for example with a tool call.
    Continued,
}

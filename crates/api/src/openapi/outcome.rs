//! Schemas of contracts, receipts, errors and salvage.

use serde_json::Value;
use utoipa::ToSchema;

use super::journal::CallErrorSchema;
use super::{JsonSchemaDocument, RunErrorTypeName};

/// The contract that a result must satisfy.
#[derive(Debug, ToSchema)]
#[schema(as = Contract)]
pub struct ContractSchema {
    /// Origin of the schema: `blueprint`, `inline`, `named` or `default`.
    #[schema(pattern = "^(blueprint|inline|named|default)$")]
    pub source: String,
    /// Name of the registered schema; null if it was not requested by name.
    pub schema_name: Option<String>,
    /// The JSON Schema.
    #[schema(value_type = JsonSchemaDocument)]
    pub schema: Value,
    /// `sha256:` and the hash of the schema's text.
    pub hash: String,
    /// The enforcement options.
    pub options: ContractOptionsSchema,
    /// An example result, shown to the model.
    pub example: Option<Value>,
}

/// Enforcement options with all defaults applied.
#[derive(Debug, ToSchema)]
#[schema(as = ContractOptions)]
pub struct ContractOptionsSchema {
    /// Model calls after the first one, per rung.
    pub max_retries: u32,
    /// Whether JSON may be found inside other text.
    pub extract_json: bool,
    /// Whether the reply must consist of JSON only.
    pub strict_json_only: bool,
    /// `strict`, or `lenient` with type coercion.
    pub validation_mode: String,
    /// Strategy for obtaining JSON from the model.
    pub strategy: String,
    /// Whether a correction asks for the full document or for a patch.
    pub correction: String,
    /// Form of the schema in the prompt.
    pub schema_form: String,
    /// Whether results that contain placeholders are rejected.
    pub reject_placeholders: bool,
}

/// How a result was obtained.
#[derive(Debug, ToSchema)]
#[schema(as = Receipt)]
pub struct ReceiptSchema {
    /// Strategy by which the model was asked; null if none was asked.
    pub strategy: Option<String>,
    /// Requests to models.
    pub calls: u32,
    /// Requests that repeated another because its reply was rejected.
    pub retries: u32,
    /// Replies that should have called `submit_result` and did not. Omitted if 0.
    #[serde(default)]
    pub missing_submits: u32,
    /// Every change between the model's text and the result.
    pub repairs: Vec<RepairSchema>,
    /// The tiers that were tried, in order.
    pub rungs: Vec<RungSchema>,
    /// Tokens of all calls.
    pub tokens: TokensSchema,
    /// Hash of the contract's schema; null without a contract.
    pub schema_hash: Option<String>,
    /// Schema keywords that the backend could not enforce.
    pub unenforced: Vec<String>,
    /// Further properties of the result, such as `forced_close`.
    pub flags: Vec<String>,
    /// Criteria that are the claim of the model. Omitted if there are none.
    #[serde(default)]
    pub model_claims: Vec<String>,
    /// All subtasks of an orchestration that is incomplete. Omitted otherwise.
    #[serde(default)]
    pub subtasks: Vec<SubtaskOutcomeSchema>,
}

/// One change between a model's text and the result.
#[derive(Debug, ToSchema)]
#[schema(as = Repair)]
pub struct RepairSchema {
    /// Kind of the change, such as `quotes_changed`.
    pub kind: String,
    /// JSON Pointer of the location in the result.
    pub pointer: String,
    /// The text or value before the change; null if not applicable.
    pub from: Value,
    /// The value after the change; null if not applicable.
    pub to: Value,
}

/// One tier that was tried.
#[derive(Debug, ToSchema)]
#[schema(as = Rung)]
pub struct RungSchema {
    /// Name of the tier; `default` if the agent names none.
    pub tier: String,
    /// Backend of the tier.
    pub backend: String,
    /// Model that requests named.
    #[serde(default)]
    pub model: String,
    /// Requests on this tier.
    pub calls: u32,
}

/// Tokens of model calls.
#[derive(Debug, ToSchema)]
#[schema(as = Tokens)]
pub struct TokensSchema {
    /// Tokens in requests.
    pub input: u64,
    /// Tokens in replies.
    pub output: u64,
}

/// The error of a failed or stopped run.
#[derive(Debug, ToSchema)]
#[schema(as = RunError)]
pub struct RunErrorSchema {
    /// Type of the error.
    #[serde(rename = "type")]
    pub kind: RunErrorTypeName,
    /// The message, for people.
    pub message: String,
    /// Violations of the contract, as `$.path: message`. Omitted if there are none.
    #[serde(default)]
    pub validation_errors: Vec<String>,
    /// The last reply, as the model wrote it. Omitted without one.
    #[serde(default)]
    pub last_output: Option<String>,
    /// Requests to models.
    #[serde(default)]
    pub calls: u32,
    /// Requests that repeated another because its reply was rejected.
    #[serde(default)]
    pub retry_count: u32,
    /// The failure of the last model call, if the run failed because of it.
    #[serde(default)]
    pub call_error: Option<CallErrorSchema>,
    /// The error in the form of the contract, if that is the universal response or the action envelope.
    #[serde(default)]
    pub response: Option<Value>,
}

/// The error of a run in a list.
#[derive(Debug, ToSchema)]
#[schema(as = RunErrorSummary)]
pub struct RunErrorSummarySchema {
    /// Type of the error.
    #[serde(rename = "type")]
    pub kind: RunErrorTypeName,
    /// The message, shortened.
    pub message: String,
}

/// Usable parts of a failed run.
#[derive(Debug, ToSchema)]
#[schema(as = Salvage)]
pub struct SalvageSchema {
    /// Every reply, oldest first.
    pub replies: Vec<String>,
    /// The candidate closest to the contract.
    pub best_candidate: Option<Value>,
    /// The members of that candidate that satisfy the contract.
    pub valid_parts: Option<Value>,
    /// Its violations.
    pub errors: Vec<String>,
    /// The subtasks of an orchestration.
    #[serde(default)]
    pub subtasks: Vec<SubtaskOutcomeSchema>,
}

/// The outcome of a subtask.
#[derive(Debug, ToSchema)]
#[schema(as = SubtaskOutcome)]
pub struct SubtaskOutcomeSchema {
    /// Id of the subtask.
    pub id: String,
    /// Agent that performed it, or should have.
    pub agent: String,
    /// The instructions.
    pub description: String,
    /// `completed`, `failed` or `not_begun`.
    pub status: String,
    /// Result of a completed subtask.
    #[serde(default)]
    pub result: Option<Value>,
    /// Why the subtask is not completed.
    #[serde(default)]
    pub error: Option<String>,
}

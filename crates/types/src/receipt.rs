//! The record of how a result came to satisfy its contract.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a result came to satisfy its contract.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// How the model was asked; null where no model was.
    pub strategy: Option<String>,
    /// Requests to a model.
    pub calls: u32,
    /// Requests that repeat another because its answer would not do.
    pub retries: u32,
    /// Replies that were to call `submit_result` and did not.
    #[serde(default, skip_serializing_if = "is_none")]
    pub missing_submits: u32,
    /// Every change between the model's text and the result.
    pub repairs: Vec<Repair>,
    /// The tiers that were tried, in order.
    pub rungs: Vec<Rung>,
    /// What the calls consumed.
    pub tokens: Tokens,
    /// The hash of the contract's schema; null without a contract.
    pub schema_hash: Option<String>,
    /// Keywords that the backend could not enforce and that were checked afterwards.
    pub unenforced: Vec<String>,
    /// What else is worth knowing about the result.
    pub flags: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references out")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// One change between the text and the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repair {
    /// The name of the change.
    pub kind: String,
    /// JSON Pointer of its place in the result.
    pub pointer: String,
    /// What stood there before.
    pub from: Value,
    /// What stands there now.
    pub to: Value,
}

/// One step of an escalation ladder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// The tier's name.
    pub tier: String,
    /// The backend it stands for.
    pub backend: String,
    /// Requests made there.
    pub calls: u32,
}

/// Tokens consumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Tokens read by the model.
    pub input: u64,
    /// Tokens written by the model.
    pub output: u64,
}

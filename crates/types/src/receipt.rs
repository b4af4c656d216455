//! The receipt: the record of how a result was reached.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{INCOMPLETE, SubtaskOutcome};

/// The record of how a result was reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The strategy by which the model was asked; `None` if no model was asked.
    pub strategy: Option<String>,
    /// The number of requests to models.
    pub calls: u32,
    /// The number of requests that repeated another because its reply was rejected.
    pub retries: u32,
    /// The number of replies that should have called `submit_result` and did not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing_submits: u32,
    /// Every change between the model's text and the result.
    pub repairs: Vec<Repair>,
    /// The tiers that were tried, in order.
    pub rungs: Vec<Rung>,
    /// The tokens that all calls consumed.
    pub tokens: Tokens,
    /// The hash of the contract's schema; `None` without a contract.
    pub schema_hash: Option<String>,
    /// Schema keywords that the backend could not enforce, so that validation checked them afterwards.
    pub unenforced: Vec<String>,
    /// Further properties of the result, such as `forced_close` or `placeholder`.
    pub flags: Vec<String>,
    /// The criteria of the result that no check decided: whether they are met is the claim of the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_claims: Vec<String>,
    /// All subtasks with their results and failures, if the result is the summary of an orchestration in which not
    /// every subtask was completed. The flag `incomplete` is set then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subtasks: Vec<SubtaskOutcome>,
}

impl Receipt {
    /// Returns whether the result lacks a part, because subtasks failed.
    pub fn is_incomplete(&self) -> bool {
        self.flags.iter().any(|flag| flag == INCOMPLETE)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// One change between the text and the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repair {
    /// The name of a `RepairKind` of `slipform-extract`.
    pub kind: String,
    /// JSON Pointer of the location in the result.
    pub pointer: String,
    /// The text or value before the change; null if not applicable.
    pub from: Value,
    /// The value after the change; null if not applicable.
    pub to: Value,
}

/// One rung of an escalation ladder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// The tier's name; `default` if the agent names none.
    pub tier: String,
    /// The name of the backend that the tier maps to.
    pub backend: String,
    /// The model that requests named; empty in receipts of earlier versions.
    #[serde(default)]
    pub model: String,
    /// The number of requests on this rung.
    pub calls: u32,
}

/// The number of tokens consumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Tokens in requests.
    pub input: u64,
    /// Tokens in replies.
    pub output: u64,
}

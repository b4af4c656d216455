//! The contract of a run: the output schema that was resolved for it, with its source and options.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most retries that may be asked for. Every one is a model call that someone pays for; a contract
/// that is not met after ten will not be met by an eleventh.
pub const RETRIES_MAX: u32 = 10;

/// The retries for a contract that the blueprint owns, unless something else is said.
pub const RETRIES_FOR_BLUEPRINT: u32 = 1;

/// The retries for every other contract, unless something else is said.
pub const RETRIES_FOR_CALLER: u32 = 2;

/// What the result of a run has to satisfy, resolved once and stored with the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contract {
    /// Where the schema came from.
    pub source: ContractSource,
    /// The schema's name in the registry, where it was asked for by name.
    pub schema_name: Option<String>,
    /// The schema, in its own key order.
    pub schema: Value,
    /// `sha256:` and the hash of the schema's text.
    pub hash: String,
    /// How the contract is enforced.
    pub options: ContractOptions,
    /// A filled example that satisfies the schema, shown to the model.
    pub example: Option<Value>,
}

/// Where a contract's schema came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContractSource {
    /// The blueprint's `output_schema`, which no caller can replace.
    Blueprint,
    /// The request's `output_schema`.
    Inline,
    /// The request's `output_schema_name`.
    Named,
    /// The blueprint's `default_output_schema`.
    Default,
}

/// How a contract is enforced, with every question answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractOptions {
    /// Further model calls after the first, on each rung; at most [`RETRIES_MAX`].
    pub max_retries: u32,
    /// Whether JSON may be found inside other text and repaired without loss.
    pub extract_json: bool,
    /// Whether the whole reply must be one JSON document; wins over `extract_json`.
    pub strict_json_only: bool,
    /// Whether lossy repair and coercion are allowed.
    pub validation_mode: ValidationMode,
    /// How the model is asked.
    pub strategy: Strategy,
    /// What a retry asks for.
    pub correction: Correction,
    /// How the schema is shown to the model.
    pub schema_form: SchemaForm,
    /// Whether values that are only placeholders are refused.
    pub reject_placeholders: bool,
}

impl Default for ContractOptions {
    fn default() -> Self {
        ContractOptions {
            max_retries: RETRIES_FOR_CALLER,
            extract_json: true,
            strict_json_only: false,
            validation_mode: ValidationMode::Strict,
            strategy: Strategy::Auto,
            correction: Correction::Auto,
            schema_form: SchemaForm::Auto,
            reject_placeholders: false,
        }
    }
}

/// Whether a value may be changed to fit its schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidationMode {
    /// Data is never altered.
    #[default]
    Strict,
    /// Lossy repair and coercion are allowed, every change named in the receipt.
    Lenient,
}

/// How the model is asked for a structured result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Whatever the backend does best.
    #[default]
    Auto,
    /// The schema stands at the end of the user message.
    Prompt,
    /// The schema stands at the end of the system prompt.
    SystemPrompt,
    /// The result is submitted by a tool call.
    Tool,
    /// The backend's own structured output.
    Native,
}

/// What a retry asks the model for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Correction {
    /// Whichever is cheaper for the errors at hand.
    #[default]
    Auto,
    /// The whole document again.
    Full,
    /// Only the parts that failed.
    Patch,
}

/// How the schema is shown to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaForm {
    /// Whichever suits the schema and the model.
    #[default]
    Auto,
    /// As JSON Schema.
    Json,
    /// As a short outline of the value.
    Compact,
}

/// The options that someone has an opinion on: a request, a blueprint or the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptionsPatch {
    /// See [`ContractOptions::max_retries`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// See [`ContractOptions::extract_json`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract_json: Option<bool>,
    /// See [`ContractOptions::strict_json_only`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_json_only: Option<bool>,
    /// See [`ContractOptions::validation_mode`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_mode: Option<ValidationMode>,
    /// See [`ContractOptions::strategy`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// See [`ContractOptions::correction`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correction: Option<Correction>,
    /// See [`ContractOptions::schema_form`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_form: Option<SchemaForm>,
    /// See [`ContractOptions::reject_placeholders`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reject_placeholders: Option<bool>,
}

impl OptionsPatch {
    /// This patch, with `weaker` asked wherever it has no opinion.
    #[must_use]
    pub fn merge(&self, weaker: &OptionsPatch) -> OptionsPatch {
        OptionsPatch {
            max_retries: self.max_retries.or(weaker.max_retries),
            extract_json: self.extract_json.or(weaker.extract_json),
            strict_json_only: self.strict_json_only.or(weaker.strict_json_only),
            validation_mode: self.validation_mode.or(weaker.validation_mode),
            strategy: self.strategy.or(weaker.strategy),
            correction: self.correction.or(weaker.correction),
            schema_form: self.schema_form.or(weaker.schema_form),
            reject_placeholders: self.reject_placeholders.or(weaker.reject_placeholders),
        }
    }

    /// The options that come of it when `defaults` answer what is left open.
    pub fn resolve(&self, defaults: &ContractOptions) -> ContractOptions {
        ContractOptions {
            max_retries: self.max_retries.unwrap_or(defaults.max_retries),
            extract_json: self.extract_json.unwrap_or(defaults.extract_json),
            strict_json_only: self.strict_json_only.unwrap_or(defaults.strict_json_only),
            validation_mode: self.validation_mode.unwrap_or(defaults.validation_mode),
            strategy: self.strategy.unwrap_or(defaults.strategy),
            correction: self.correction.unwrap_or(defaults.correction),
            schema_form: self.schema_form.unwrap_or(defaults.schema_form),
            reject_placeholders: self.reject_placeholders.unwrap_or(defaults.reject_placeholders),
        }
    }

    /// Whether nothing is said at all.
    pub fn is_empty(&self) -> bool {
        *self == OptionsPatch::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_merged_key_by_key() {
        let patch = |value| serde_json::from_value::<OptionsPatch>(value).unwrap();
        let request = patch(json!({"max_retries": 5, "strategy": "system_prompt"}));
        let blueprint = patch(json!({"max_retries": 3, "validation_mode": "lenient"}));
        let merged = request.merge(&blueprint);
        assert_eq!(
            serde_json::to_value(&merged).unwrap(),
            json!({"max_retries": 5, "validation_mode": "lenient", "strategy": "system_prompt"})
        );
        assert_eq!(
            serde_json::to_value(merged.resolve(&ContractOptions::default())).unwrap(),
            json!({
                "max_retries": 5, "extract_json": true, "strict_json_only": false, "validation_mode": "lenient",
                "strategy": "system_prompt", "correction": "auto", "schema_form": "auto",
                "reject_placeholders": false,
            })
        );
        assert!(patch(json!({})).is_empty() && !merged.is_empty());
        assert!(serde_json::from_value::<OptionsPatch>(json!({"max_retry": 1})).is_err());
    }
}

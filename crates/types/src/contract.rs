//! The contract of a run: its resolved output schema, with source and options.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most retries that a caller may request. Each retry is a paid model call, and further ones rarely
/// succeed.
pub const RETRIES_MAX: u32 = 10;

/// The default number of retries for a contract from the blueprint's `output_schema`.
pub const RETRIES_FOR_BLUEPRINT: u32 = 1;

/// The default number of retries for all other contracts.
pub const RETRIES_FOR_CALLER: u32 = 2;

/// The contract that a run's result must satisfy, resolved once and stored with the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contract {
    /// The origin of the schema.
    pub source: ContractSource,
    /// The schema's name in the registry; `None` if the caller did not request it by name.
    pub schema_name: Option<String>,
    /// The schema, in its own key order.
    pub schema: Arc<Value>,
    /// `sha256:` and the hash of the schema's compact JSON text.
    pub hash: String,
    /// The enforcement options.
    pub options: ContractOptions,
    /// An example result that satisfies the schema, shown to the model.
    pub example: Option<Value>,
}

/// The origin of a contract's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContractSource {
    /// The blueprint's `output_schema`, which no caller can override.
    Blueprint,
    /// The request's `output_schema`.
    Inline,
    /// The request's `output_schema_name`.
    Named,
    /// The blueprint's `default_output_schema`.
    Default,
}

/// The enforcement options of a contract, with all defaults applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractOptions {
    /// The most further model calls after the first on each rung; at most [`RETRIES_MAX`].
    pub max_retries: u32,
    /// Whether JSON may be found inside other text and repaired without loss.
    pub extract_json: bool,
    /// Whether the whole reply must be one JSON document; overrides `extract_json`.
    pub strict_json_only: bool,
    /// Whether lossy repair and coercion are allowed.
    pub validation_mode: ValidationMode,
    /// The way in which the model is asked for JSON.
    pub strategy: Strategy,
    /// The part of the result that a retry requests.
    pub correction: Correction,
    /// The form in which the model sees the schema.
    pub schema_form: SchemaForm,
    /// Whether placeholder values are refused.
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
    /// Lossy repair and coercion are allowed; the receipt lists every change.
    Lenient,
}

/// The way in which the model is asked for a structured result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Selected by the backend's capabilities.
    #[default]
    Auto,
    /// The schema is at the end of the user message.
    Prompt,
    /// The schema is at the end of the system prompt.
    SystemPrompt,
    /// The model submits the result by a tool call.
    Tool,
    /// The backend's native structured output.
    Native,
}

/// The part of the result that a retry requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Correction {
    /// The cheaper of the two, depending on the errors.
    #[default]
    Auto,
    /// The whole document again.
    Full,
    /// Only the parts that failed.
    Patch,
}

/// The form in which the model sees the schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaForm {
    /// Selected by the schema and the model.
    #[default]
    Auto,
    /// As JSON Schema.
    Json,
    /// As a short outline of the value.
    Compact,
}

/// The options that a request, a blueprint or the environment sets; unset options are `None`.
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
    /// Returns this patch, with unset options taken from `weaker`.
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

    /// Returns complete options, with unset options taken from `defaults`.
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

    /// Returns whether no option is set.
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

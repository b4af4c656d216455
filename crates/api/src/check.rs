//! Extraction and validation without a model.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipform_types::OptionsPatch;
use utoipa::ToSchema;

use crate::openapi::{JsonSchemaDocument, OptionsSchema};

/// A text that is to be held against a schema.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// The text.
    pub text: String,
    /// The JSON Schema; anything goes where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JsonSchemaDocument>)]
    pub schema: Option<Value>,
    /// The same by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_name: Option<String>,
    /// How strictly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OptionsSchema>)]
    pub options: Option<OptionsPatch>,
}

/// What was found in a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    /// Whether it satisfies the schema, and where that is the universal response the rules beyond it.
    pub valid: bool,
    /// Whether there was any JSON.
    pub found: bool,
    /// The JSON, or the best candidate.
    pub value: Option<Value>,
    /// What is wrong with it, as `$.path: message`.
    pub errors: Vec<String>,
    /// What was changed.
    #[schema(value_type = Vec<Object>)]
    pub repairs: Vec<Value>,
}

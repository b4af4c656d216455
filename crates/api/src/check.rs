//! Extraction and validation without a model.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipform_types::OptionsPatch;
use utoipa::ToSchema;

use crate::openapi::{JsonSchemaDocument, OptionsSchema};

/// A text to extract JSON from and validate.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// The text, for example a model's reply.
    pub text: String,
    /// The JSON Schema. Without a schema, any JSON is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JsonSchemaDocument>)]
    pub schema: Option<Value>,
    /// Name of a registered schema, instead of `schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_name: Option<String>,
    /// Extraction and validation options. The mode defaults to `strict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OptionsSchema>)]
    pub options: Option<OptionsPatch>,
}

/// The JSON found in a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    /// Whether the JSON satisfies the schema and, for universal responses, the extra rules.
    pub valid: bool,
    /// Whether the text contains JSON.
    pub found: bool,
    /// The JSON, or the best candidate if it is invalid; null if none was found.
    pub value: Option<Value>,
    /// Violations, as `$.path: message`.
    pub errors: Vec<String>,
    /// Repairs made to the JSON, as `{kind, pointer, from, to}`.
    #[schema(value_type = Vec<Object>)]
    pub repairs: Vec<Value>,
}

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
    /// Repairs made to the JSON.
    pub repairs: Vec<RepairView>,
    /// The place of the JSON in the text; null if none was found, or it was put together from several parts.
    #[serde(default)]
    #[schema(value_type = Option<Vec<u64>>, min_items = 2, max_items = 2)]
    pub document: Option<Span>,
}

/// A place in a text: the numbers of its first character and of the character after it, counted in Unicode code points
/// from 0. A place where something is missing has equal numbers.
pub type Span = [u64; 2];

/// One change between a text and its JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RepairView {
    /// Kind of the change, such as `quotes_changed`.
    pub kind: String,
    /// JSON Pointer of the location in the JSON.
    pub pointer: String,
    /// The text or value before the change; null if not applicable.
    pub from: Value,
    /// The value after the change; null if not applicable.
    pub to: Value,
    /// Whether changes of this kind can never alter the data.
    #[serde(default)]
    pub lossless: bool,
    /// What was changed, in one sentence.
    #[serde(default)]
    pub description: String,
    /// The place in the text; null if the change has none.
    #[serde(default)]
    #[schema(value_type = Option<Vec<u64>>, min_items = 2, max_items = 2)]
    pub span: Option<Span>,
}

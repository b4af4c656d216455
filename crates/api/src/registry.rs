//! Agents and schemas.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::openapi::JsonSchemaDocument;

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentView {
    /// Its name.
    pub name: String,
    /// Where it comes from: `api`, `file` or `shipped`.
    pub source: String,
    /// Its file, where it has one.
    pub path: Option<String>,
    /// What is wrong with the file, where the last good version is in force, or none is.
    pub problems: Vec<String>,
    /// The blueprint that is in force; null where the file never was right.
    #[schema(value_type = Option<Object>)]
    pub blueprint: Option<Value>,
    /// When it was saved.
    pub created_at: Option<String>,
    /// When it was last changed.
    pub updated_at: Option<String>,
}

/// A schema that is to be registered.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SchemaRequest {
    /// The name that it is asked for by.
    #[schema(pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$")]
    pub name: String,
    /// The JSON Schema.
    #[schema(value_type = JsonSchemaDocument)]
    pub schema: Value,
}

/// A schema that is to be checked.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidateSchemaRequest {
    /// The JSON Schema.
    pub schema: Value,
}

/// A registered schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SchemaView {
    /// Its name.
    pub name: String,
    /// Where it comes from: `api`, `file` or `shipped`.
    pub source: String,
    /// The JSON Schema, in its own key order; null where its file cannot be used.
    pub schema: Value,
    /// `sha256:` and the hash of its text.
    pub hash: Option<String>,
    /// What is wrong with it or its file.
    pub problems: Vec<String>,
    /// When it was registered.
    pub created_at: Option<String>,
}

/// Whether something can be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Verdict {
    /// Whether it can.
    pub valid: bool,
    /// Why not: `{path, message}` each.
    #[schema(value_type = Vec<Object>)]
    pub errors: Vec<Value>,
    /// What is odd about it.
    #[schema(value_type = Vec<Object>)]
    pub warnings: Vec<Value>,
}

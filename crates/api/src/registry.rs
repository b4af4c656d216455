//! Agents and schemas.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::openapi::JsonSchemaDocument;

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentView {
    /// Unique name.
    pub name: String,
    /// `api`, `file` or `shipped`.
    pub source: String,
    /// Path of the agent file; null for other sources.
    pub path: Option<String>,
    /// Problems in the file. The last valid version stays in use, if there was one.
    pub problems: Vec<String>,
    /// The blueprint in use; null if the file was never valid.
    #[schema(value_type = Option<Object>)]
    pub blueprint: Option<Value>,
    /// When the agent was saved; null for files and shipped agents.
    pub created_at: Option<String>,
    /// When the agent was last changed; null for files and shipped agents.
    pub updated_at: Option<String>,
}

/// A schema to register.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SchemaRequest {
    /// Unique name.
    #[schema(pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$")]
    pub name: String,
    /// What the schema is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema.
    #[schema(value_type = JsonSchemaDocument)]
    pub schema: Value,
}

/// A schema to check.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidateSchemaRequest {
    /// The JSON Schema.
    pub schema: Value,
}

/// A registered schema in a list, without the schema itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SchemaSummary {
    /// Unique name.
    pub name: String,
    /// What the schema is for; null if neither the registration nor the schema says it.
    pub description: Option<String>,
    /// `api`, `file` or `shipped`.
    pub source: String,
    /// `sha256:` and the hash of the schema's text; null if its file was never valid.
    pub hash: Option<String>,
    /// Problems in the schema or its file.
    pub problems: Vec<String>,
    /// When the schema was registered; null for files and shipped schemas.
    pub created_at: Option<String>,
    /// When the schema was last changed; null for shipped schemas.
    pub modified_at: Option<String>,
}

/// A registered schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SchemaView {
    /// Unique name.
    pub name: String,
    /// What the schema is for; null if neither the registration nor the schema says it.
    pub description: Option<String>,
    /// `api`, `file` or `shipped`.
    pub source: String,
    /// The JSON Schema with its original key order; null if its file was never valid.
    pub schema: Value,
    /// `sha256:` and the hash of the schema's text; null if its file was never valid.
    pub hash: Option<String>,
    /// Problems in the schema or its file.
    pub problems: Vec<String>,
    /// Warnings of the linter, as `{path, message}`.
    #[schema(value_type = Vec<Object>)]
    pub warnings: Vec<Value>,
    /// When the schema was registered; null for files and shipped schemas.
    pub created_at: Option<String>,
    /// When the schema was last changed; null for shipped schemas.
    pub modified_at: Option<String>,
}

impl From<SchemaView> for SchemaSummary {
    fn from(view: SchemaView) -> SchemaSummary {
        let SchemaView { name, description, source, hash, problems, created_at, modified_at, .. } = view;
        SchemaSummary { name, description, source, hash, problems, created_at, modified_at }
    }
}

/// Result of checking a blueprint or a schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Verdict {
    /// Whether the blueprint or schema has no errors.
    pub valid: bool,
    /// Errors, as `{path, message}`.
    #[schema(value_type = Vec<Object>)]
    pub errors: Vec<Value>,
    /// Warnings of the linter.
    #[schema(value_type = Vec<Object>)]
    pub warnings: Vec<Value>,
}

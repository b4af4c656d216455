//! Agents and schemas.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::openapi::JsonSchemaDocument;

/// A problem or warning in an agent or schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The JSONPath in the definition; `$` for the whole.
    pub path: String,
    /// The problem and how to fix it.
    pub message: String,
    /// The line in the file, from 1. Omitted for formats without lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl Problem {
    /// Creates a problem of a whole definition.
    pub fn of_whole(message: String) -> Problem {
        Problem { path: "$".to_owned(), message, line: None }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(formatter, "line {line}: ")?;
        }
        write!(formatter, "{}: {}", self.path, self.message)
    }
}

/// An agent: its blueprint, with the members below beside the keys. It can be sent back as it is, because these members
/// are ignored in blueprints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentView {
    /// Unique name.
    pub name: String,
    /// The other keys of the blueprint in use. Omitted if the file was never valid.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub definition: Map<String, Value>,
    /// `api`, `file` or `shipped`.
    pub source: String,
    /// Path of the agent file; null for other sources.
    pub path: Option<String>,
    /// Problems in the file. The last valid version stays in use, if there was one.
    pub problems: Vec<Problem>,
    /// Parts that are valid but probably not intended.
    pub warnings: Vec<Problem>,
    /// When the agent was saved; null for files and shipped agents.
    pub created_at: Option<String>,
    /// When the agent was last changed; null for shipped agents.
    pub modified_at: Option<String>,
}

impl AgentView {
    /// The members that are not keys of the blueprint.
    pub const OWN_MEMBERS: [&str; 6] =
        ["source", "path", "problems", "warnings", "created_at", "modified_at"];

    /// Returns the blueprint in use; `None` if the file was never valid.
    pub fn blueprint(&self) -> Option<Value> {
        if self.definition.is_empty() {
            return None;
        }
        let mut blueprint = Map::from_iter([("name".to_owned(), Value::String(self.name.clone()))]);
        blueprint.extend(self.definition.clone());
        Some(Value::Object(blueprint))
    }
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
    pub problems: Vec<Problem>,
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
    pub problems: Vec<Problem>,
    /// Warnings of the linter.
    pub warnings: Vec<Problem>,
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
    /// Errors.
    pub errors: Vec<Problem>,
    /// Parts that are valid but probably not intended.
    pub warnings: Vec<Problem>,
}

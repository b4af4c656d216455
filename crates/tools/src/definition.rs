//! Builds tool definitions with the hash that pins them.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipform_types::ToolDefinition;

/// Builds a definition. The hash covers everything that a model sees of the tool.
pub(crate) fn define(
    name: &str,
    description: &str,
    parameters: Value,
    output: Option<Value>,
) -> ToolDefinition {
    let seen = json!([name, description, parameters, output]).to_string();
    let mut hash = String::from("sha256:");
    for byte in Sha256::digest(seen.as_bytes()) {
        let _ = write!(hash, "{byte:02x}");
    }
    ToolDefinition { name: name.to_owned(), description: description.to_owned(), parameters, output, hash }
}

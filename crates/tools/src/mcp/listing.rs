//! Requests and validates a server's list of tools.

use std::collections::BTreeSet;

use rmcp::model::{JsonObject, PaginatedRequestParams, Tool as OfferedTool};
use serde_json::Value;
use slipform_schema::Schema;
use slipform_types::ToolDefinition;

use super::connection::Connection;
use crate::Error;
use crate::definition::define;

/// Maximum number of tools of one server. Models do not handle more well; a server with more is refused.
const TOOLS_MAX: usize = 128;

/// Maximum number of pages of a list. A server with more, possibly endless, pages is refused.
const PAGES_MAX: usize = 64;

/// Maximum length of a tool's name, as specified by MCP. A longer name is refused.
const NAME_CHARACTERS_MAX: usize = 128;

/// Maximum length of a description, because it is part of every request to a model. A longer one is refused.
const DESCRIPTION_BYTES_MAX: usize = 32 * 1024;

/// Maximum length of a schema, for the same reason.
const SCHEMA_BYTES_MAX: usize = 256 * 1024;

/// A validated tool of a server.
pub(crate) struct ListedTool {
    /// The name that the server knows, without the prefix `server:`.
    pub(crate) name: String,
    pub(crate) definition: ToolDefinition,
    /// The schema of its structured results, if it declares one.
    pub(crate) output: Option<Schema>,
}

/// Requests all tools of the server.
pub(crate) async fn list(connection: &Connection) -> Result<Vec<ListedTool>, Error> {
    let limit = connection.limits.connect;
    let during = "while it was listing its tools";
    let oversized = connection.server.diagnostics.next_oversized();
    let offered = tokio::select! {
        // Poll this branch first: an oversized message also closes the stream, and the size is the actual
        // cause.
        biased;
        () = oversized => {
            let bytes = connection.limits.message_bytes_max;
            return Err(connection.server.error(&format!("sent a list of tools longer than {bytes} bytes")));
        }
        offered = tokio::time::timeout(limit, pages(connection, during)) => {
            offered.map_err(|_| connection.server.timed_out(during, limit))??
        }
    };
    let mut names = BTreeSet::new();
    let mut listed = Vec::with_capacity(offered.len());
    for tool in offered {
        if !names.insert(tool.name.to_string()) {
            return Err(connection.server.error(&format!("has two tools of the name '{}'", tool.name)));
        }
        listed.push(check(connection.server.name(), &tool).map_err(|reason| {
            connection.server.error(&format!("has a tool '{}' that cannot be used: {reason}", tool.name))
        })?);
    }
    Ok(listed)
}

async fn pages(connection: &Connection, during: &str) -> Result<Vec<OfferedTool>, Error> {
    let mut offered = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let page = match connection.peer().list_tools(Some(page)).await {
            Ok(page) => page,
            Err(error) => {
                return Err(match connection.request_error(error, during).await {
                    Error::Failed(message) => {
                        connection.server.error(&format!("does not list its tools: {message}"))
                    }
                    other => other,
                });
            }
        };
        offered.extend(page.tools);
        if offered.len() > TOOLS_MAX {
            return Err(connection
                .server
                .error(&format!("has more than {TOOLS_MAX} tools; let it offer fewer")));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(offered);
        }
    }
    Err(connection.server.error(&format!("lists its tools on more than {PAGES_MAX} pages")))
}

/// Returns the validated tool, or the reason why it cannot be used.
fn check(server: &str, tool: &OfferedTool) -> Result<ListedTool, String> {
    let name = tool.name.to_string();
    let is_valid = |character: char| !character.is_whitespace() && !character.is_control();
    if name.is_empty() || name.chars().count() > NAME_CHARACTERS_MAX || !name.chars().all(is_valid) {
        return Err(format!("names have 1 to {NAME_CHARACTERS_MAX} characters and no spaces"));
    }
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    if description.len() > DESCRIPTION_BYTES_MAX {
        return Err(format!("its description is longer than {DESCRIPTION_BYTES_MAX} bytes"));
    }
    let (parameters, _) = compile("inputSchema", &tool.input_schema)?;
    let output = tool.output_schema.as_ref().map(|schema| compile("outputSchema", schema)).transpose()?;
    let (output_schema, output) = output.unzip();
    Ok(ListedTool {
        definition: define(&format!("{server}:{name}"), description, parameters, output_schema),
        name,
        output,
    })
}

fn compile(field: &str, schema: &JsonObject) -> Result<(Value, Schema), String> {
    let schema = Value::Object(schema.clone());
    if schema.to_string().len() > SCHEMA_BYTES_MAX {
        return Err(format!("its {field} is longer than {SCHEMA_BYTES_MAX} bytes"));
    }
    let compiled =
        Schema::compile(&schema).map_err(|error| format!("its {field} is no JSON Schema: {error}"))?;
    Ok((schema, compiled))
}

//! What a server says about its tools, checked once.

use std::collections::BTreeSet;

use rmcp::model::{JsonObject, PaginatedRequestParams, Tool as Offered};
use serde_json::Value;
use slipform_schema::Schema;
use slipform_types::ToolDefinition;

use super::connection::Connection;
use crate::Error;
use crate::definition::define;

/// The most tools of one server. Models lose the overview long before; a server with more is refused.
const TOOLS_MAX: usize = 128;

/// The most pages of a list. A server that has ever more is refused.
const PAGES_MAX: usize = 64;

/// The longest name of a tool, as MCP has it. Backends take less; a longer one is refused.
const NAME_CHARACTERS_MAX: usize = 128;

/// The longest description. Every model reads it with every request; a longer one is refused.
const DESCRIPTION_BYTES_MAX: usize = 32 * 1024;

/// The longest schema, for the same reason.
const SCHEMA_BYTES_MAX: usize = 256 * 1024;

/// A tool as its server describes it.
pub(crate) struct Listed {
    /// Its name to its server.
    pub(crate) name: String,
    pub(crate) definition: ToolDefinition,
    /// The schema that its structured results have to satisfy.
    pub(crate) output: Option<Schema>,
}

/// Asks the server for all its tools.
pub(crate) async fn list(connection: &Connection) -> Result<Vec<Listed>, Error> {
    let limit = connection.limits.connect;
    let during = "while it was listing its tools";
    let oversized = connection.side.heard.until_oversized();
    let offered = tokio::select! {
        // The reason comes before what it leads to: a stream that is too long breaks off as well.
        biased;
        () = oversized => {
            let bytes = connection.limits.message_bytes_max;
            return Err(connection.side.error(&format!("sent a list of tools longer than {bytes} bytes")));
        }
        offered = tokio::time::timeout(limit, pages(connection, during)) => {
            offered.map_err(|_| connection.side.silent(during, limit))??
        }
    };
    let mut names = BTreeSet::new();
    let mut listed = Vec::with_capacity(offered.len());
    for tool in offered {
        if !names.insert(tool.name.to_string()) {
            return Err(connection.side.error(&format!("has two tools of the name '{}'", tool.name)));
        }
        listed.push(check(connection.side.server(), &tool).map_err(|reason| {
            connection.side.error(&format!("has a tool '{}' that cannot be used: {reason}", tool.name))
        })?);
    }
    Ok(listed)
}

async fn pages(connection: &Connection, during: &str) -> Result<Vec<Offered>, Error> {
    let mut offered = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let page = match connection.peer().list_tools(Some(page)).await {
            Ok(page) => page,
            Err(error) => {
                return Err(match connection.unanswered(error, during).await {
                    Error::Failed(message) => {
                        connection.side.error(&format!("does not list its tools: {message}"))
                    }
                    other => other,
                });
            }
        };
        offered.extend(page.tools);
        if offered.len() > TOOLS_MAX {
            return Err(connection
                .side
                .error(&format!("has more than {TOOLS_MAX} tools; let it offer fewer")));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(offered);
        }
    }
    Err(connection.side.error(&format!("lists its tools on more than {PAGES_MAX} pages")))
}

/// The tool's definition, or why it cannot be used.
fn check(server: &str, tool: &Offered) -> Result<Listed, String> {
    let name = tool.name.to_string();
    let sound = |character: char| !character.is_whitespace() && !character.is_control();
    if name.is_empty() || name.chars().count() > NAME_CHARACTERS_MAX || !name.chars().all(sound) {
        return Err(format!("names have 1 to {NAME_CHARACTERS_MAX} characters and no spaces"));
    }
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    if description.len() > DESCRIPTION_BYTES_MAX {
        return Err(format!("its description is longer than {DESCRIPTION_BYTES_MAX} bytes"));
    }
    let (parameters, _) = compile("inputSchema", &tool.input_schema)?;
    let output = tool.output_schema.as_ref().map(|schema| compile("outputSchema", schema)).transpose()?;
    let (promised, output) = output.unzip();
    Ok(Listed {
        definition: define(&format!("{server}:{name}"), description, parameters, promised),
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

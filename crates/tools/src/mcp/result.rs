//! Converts a server's response to a tool's result.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

use super::listing::ListedTool;
use super::server::ServerHandle;
use crate::Error;

/// Returns the result of a call, or an error if the response is a failure or invalid.
pub(crate) fn from_response(
    response: CallToolResponse,
    tool: &ListedTool,
    server: &ServerHandle,
    bytes_max: usize,
) -> Result<Value, Error> {
    let name = &tool.definition.name;
    let answer = match response {
        CallToolResponse::Complete(answer) => answer,
        CallToolResponse::InputRequired(_) => {
            return Err(Error::Failed(format!(
                "the tool '{name}' asks a person for input, and there is none"
            )));
        }
        _ => {
            return Err(
                server.error(&format!("answered the call of '{name}' with something else than a result"))
            );
        }
    };
    if answer.is_error == Some(true) {
        return Err(Error::Failed(server.redacted(&failure_text(&answer, name))));
    }
    let value = match (answer.structured_content, &tool.output) {
        (Some(value), Some(schema)) => {
            let violations = schema.violations(&value);
            if !violations.list.is_empty() {
                let lines = violations.lines().join("; ");
                return Err(server.error(&format!(
                    "answered the call of '{name}' with a result that breaks the tool's own outputSchema: {lines}"
                )));
            }
            value
        }
        (Some(value), None) => value,
        (None, Some(_)) => {
            return Err(server.error(&format!(
                "answered the call of '{name}' without the structuredContent that the tool's outputSchema promises"
            )));
        }
        (None, None) => content_value(answer.content),
    };
    if value.to_string().len() > bytes_max {
        return Err(too_large(name, bytes_max));
    }
    Ok(value)
}

/// Returns the error for a result that exceeds the size limit.
pub(crate) fn too_large(name: &str, bytes_max: usize) -> Error {
    Error::Failed(format!("the result of '{name}' is larger than {bytes_max} bytes; ask for less of it"))
}

/// Returns the tool's own description of its failure.
fn failure_text(answer: &CallToolResult, name: &str) -> String {
    let texts: Vec<&str> = answer
        .content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.trim()),
            _ => None,
        })
        .filter(|text| !text.is_empty())
        .collect();
    if !texts.is_empty() {
        return texts.join("\n");
    }
    match &answer.structured_content {
        Some(value) => value.to_string(),
        None => format!("the tool '{name}' failed without saying why"),
    }
}

fn content_value(mut content: Vec<ContentBlock>) -> Value {
    match content.len() {
        1 => content.pop().map(block_value).unwrap_or_default(),
        _ => content.into_iter().map(block_value).collect(),
    }
}

/// Removes members that are null.
fn without_nulls(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, member| !member.is_null());
    }
    value
}

/// Converts a content block. Text stays text; other blocks become their type and size, because a text model
/// cannot use their bytes.
fn block_value(block: ContentBlock) -> Value {
    without_nulls(match block {
        ContentBlock::Text(text) => Value::String(text.text),
        ContentBlock::Image(image) => {
            json!({"type": "image", "mimeType": image.mime_type, "bytes": decoded_bytes(&image.data)})
        }
        ContentBlock::Audio(audio) => {
            json!({"type": "audio", "mimeType": audio.mime_type, "bytes": decoded_bytes(&audio.data)})
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                json!({"type": "resource", "uri": uri, "mimeType": mime_type, "text": text})
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                json!({"type": "resource", "uri": uri, "mimeType": mime_type, "bytes": decoded_bytes(&blob)})
            }
            _ => json!({"type": "resource"}),
        },
        ContentBlock::ResourceLink(link) => {
            json!({"type": "resource_link", "uri": link.uri, "name": link.name, "mimeType": link.mime_type})
        }
        _ => json!({"type": "unknown"}),
    })
}

/// Returns the decoded length of a base64 text.
fn decoded_bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

//! A server's answer as a tool's result.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

use super::listing::Listed;
use super::side::Side;
use crate::Error;

/// The result of a call, or why the answer is none.
pub(crate) fn of(
    response: CallToolResponse,
    tool: &Listed,
    side: &Side,
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
                side.error(&format!("answered the call of '{name}' with something else than a result"))
            );
        }
    };
    if answer.is_error == Some(true) {
        return Err(Error::Failed(side.words(&complaint(&answer, name))));
    }
    let value = match (answer.structured_content, &tool.output) {
        (Some(value), Some(schema)) => {
            let violations = schema.violations(&value);
            if !violations.list.is_empty() {
                let lines = violations.lines().join("; ");
                return Err(side.error(&format!(
                    "answered the call of '{name}' with a result that breaks the tool's own outputSchema: {lines}"
                )));
            }
            value
        }
        (Some(value), None) => value,
        (None, Some(_)) => {
            return Err(side.error(&format!(
                "answered the call of '{name}' without the structuredContent that the tool's outputSchema promises"
            )));
        }
        (None, None) => of_content(answer.content),
    };
    if value.to_string().len() > bytes_max {
        return Err(too_large(name, bytes_max));
    }
    Ok(value)
}

/// The answer is more than anybody reads.
pub(crate) fn too_large(name: &str, bytes_max: usize) -> Error {
    Error::Failed(format!("the result of '{name}' is larger than {bytes_max} bytes; ask for less of it"))
}

/// What the tool says of its failure.
fn complaint(answer: &CallToolResult, name: &str) -> String {
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

fn of_content(mut content: Vec<ContentBlock>) -> Value {
    match content.len() {
        1 => content.pop().map(of_block).unwrap_or_default(),
        _ => content.into_iter().map(of_block).collect(),
    }
}

/// The value without members that are not known.
fn known(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, member| !member.is_null());
    }
    value
}

/// Text as it is; of all else what it is and how large, because its bytes mean nothing to a model that reads
/// text.
fn of_block(block: ContentBlock) -> Value {
    known(match block {
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

/// How many bytes a base64 text stands for.
fn decoded_bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

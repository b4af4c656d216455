//! Bodies of requests. The parts that can be large are written without a copy.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use slipform_types::{Format, Message, Part, Request, Role, Tool, ToolCall};

use super::{arguments, merged};

/// The body of a request.
#[derive(Serialize)]
pub(super) struct RequestBody<'a> {
    /// The members that a server may reject, and other small ones.
    #[serde(flatten)]
    pub(super) rest: &'a Map<String, Value>,
    #[serde(flatten)]
    pub(super) chat: Option<&'a ChatMembers<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'a>>,
}

/// The members that only the chat API has.
#[derive(Serialize)]
pub(super) struct ChatMembers<'a> {
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolBody<'a>>,
}

impl<'a> ChatMembers<'a> {
    pub(super) fn of(request: &'a Request) -> ChatMembers<'a> {
        ChatMembers {
            messages: Messages { system: request.system.as_deref(), list: merged(&request.messages) },
            tools: request.tools.iter().map(ToolBody::from).collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponseFormat<'a> {
    JsonObject {
        #[serde(skip_serializing_if = "Option::is_none")]
        schema: Option<&'a Value>,
    },
    JsonSchema {
        json_schema: NamedSchema<'a>,
    },
}

#[derive(Serialize)]
pub(super) struct NamedSchema<'a> {
    name: &'a str,
    strict: bool,
    schema: &'a Value,
}

impl<'a> ResponseFormat<'a> {
    pub(super) fn of(format: &'a Format) -> Option<ResponseFormat<'a>> {
        match format {
            Format::Text => None,
            Format::JsonObject { schema } => Some(ResponseFormat::JsonObject { schema: schema.as_deref() }),
            Format::JsonSchema { name, schema, strict } => Some(ResponseFormat::JsonSchema {
                json_schema: NamedSchema { name, strict: *strict, schema },
            }),
        }
    }
}

struct Messages<'a> {
    system: Option<&'a str>,
    list: Vec<Cow<'a, Message>>,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let system = self.system.map(|text| MessageBody::of("system", ContentBody::Text(text)));
        serializer.collect_seq(system.into_iter().chain(self.list.iter().map(|message| (&**message).into())))
    }
}

#[derive(Serialize)]
struct MessageBody<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    content: ContentBody<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

/// The content of a message: a text, or the list of its parts if it has images.
#[derive(Serialize)]
#[serde(untagged)]
enum ContentBody<'a> {
    /// The message consists of calls.
    Nothing(()),
    Text(&'a str),
    Parts(Vec<PartBody<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartBody<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageBody<'a> },
}

#[derive(Serialize)]
struct ImageBody<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

impl<'a> MessageBody<'a> {
    fn of(role: &'static str, content: ContentBody<'a>) -> MessageBody<'a> {
        MessageBody { role, tool_call_id: None, content, tool_calls: Vec::new(), name: None }
    }
}

impl<'a> From<&'a Message> for MessageBody<'a> {
    fn from(message: &'a Message) -> MessageBody<'a> {
        let text = ContentBody::Text(&message.content);
        let body = match message.role {
            Role::User if message.parts.is_empty() => MessageBody::of("user", text),
            Role::User => {
                let parts = message.parts.iter().map(PartBody::from).collect();
                MessageBody::of("user", ContentBody::Parts(parts))
            }
            Role::System => MessageBody::of("system", text),
            Role::Tool => {
                let tool_call_id = message.tool_call_id.as_deref();
                MessageBody { tool_call_id, ..MessageBody::of("tool", text) }
            }
            Role::Assistant => {
                let is_empty = message.content.is_empty() && !message.tool_calls.is_empty();
                let content = if is_empty { ContentBody::Nothing(()) } else { text };
                let tool_calls = message.tool_calls.iter().map(tool_call).collect();
                MessageBody { tool_calls, ..MessageBody::of("assistant", content) }
            }
        };
        MessageBody { name: message.name.as_deref(), ..body }
    }
}

impl<'a> From<&'a Part> for PartBody<'a> {
    fn from(part: &'a Part) -> PartBody<'a> {
        match part {
            Part::Text { text } => PartBody::Text { text },
            Part::Image { url, detail } => {
                PartBody::ImageUrl { image_url: ImageBody { url, detail: detail.as_deref() } }
            }
        }
    }
}

#[derive(Serialize)]
struct ToolBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionBody<'a>,
}

#[derive(Serialize)]
struct FunctionBody<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

impl<'a> From<&'a Tool> for ToolBody<'a> {
    fn from(tool: &'a Tool) -> ToolBody<'a> {
        let Tool { name, description, parameters, strict } = tool;
        let function = FunctionBody { name, description, parameters, strict: *strict };
        ToolBody { kind: "function", function }
    }
}

fn tool_call(call: &ToolCall) -> Value {
    // Valid arguments are sent back exactly as the model wrote them.
    let arguments =
        arguments(call).map_or_else(|substitute| substitute.to_string(), |_| call.arguments.clone());
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    })
}

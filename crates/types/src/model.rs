//! Requests to a model and its replies, independent of the backend's protocol.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One request to a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Whether the model may, must or must not call tools.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// The format that the backend is asked to enforce.
    #[serde(default)]
    pub format: Format,
    /// The most tokens in the reply; `None` for the backend's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The sampling temperature; `None` for the backend's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The sampling seed; `None` for the backend's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The contract's schema, for command backends that enforce it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_hint: Option<Value>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The author of the message.
    pub role: Role,
    /// The text of the message.
    pub content: String,
    /// The tool calls that an assistant's message contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The id of the call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// Creates a user's message.
    pub fn user(content: impl Into<String>) -> Message {
        Message { role: Role::User, content: content.into(), tool_calls: Vec::new(), tool_call_id: None }
    }

    /// Creates an assistant's message.
    pub fn assistant(content: impl Into<String>, tool_calls: Vec<ToolCall>) -> Message {
        Message { role: Role::Assistant, content: content.into(), tool_calls, tool_call_id: None }
    }

    /// Creates the answer to a tool call.
    pub fn tool(call: &str, content: impl Into<String>) -> Message {
        Message {
            role: Role::Tool,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: Some(call.to_owned()),
        }
    }
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The caller.
    User,
    /// The model.
    Assistant,
    /// A tool that answers a call.
    Tool,
}

/// A tool in the form that the model sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The name that the model calls.
    pub name: String,
    /// The description that the model reads.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub parameters: Value,
    /// Whether the backend is asked to enforce `parameters`.
    #[serde(default)]
    pub strict: bool,
}

/// The tool calls that the model may or must make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model may call tools.
    #[default]
    Auto,
    /// The model must call a tool.
    Required,
    /// The model must call the tool with this name.
    Named(String),
    /// The model must not call tools, although the conversation may contain calls.
    None,
}

/// A tool call that the model made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id that the backend gave the call.
    pub id: String,
    /// The name of the called tool.
    pub name: String,
    /// The arguments as the model wrote them; not necessarily JSON.
    pub arguments: String,
}

/// The format that the backend is asked to enforce.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Format {
    /// Any text.
    #[default]
    Text,
    /// Any JSON object; some servers also accept a schema.
    JsonObject {
        /// The schema, for servers that accept one here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Value>,
    },
    /// JSON that satisfies a schema.
    JsonSchema {
        /// A name for the schema; some servers require one.
        name: String,
        /// The schema, lowered to what the backend accepts.
        schema: Value,
        /// Whether the backend is asked to enforce it.
        strict: bool,
    },
}

/// The reply of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The answer, without reasoning.
    pub text: String,
    /// The model's reasoning, if the backend separates it from the answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The tool calls in the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The reason for which the model stopped.
    pub stop: StopReason,
    /// The tokens that the call consumed.
    #[serde(default)]
    pub usage: Usage,
    /// The model that answered, as named by the backend.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Schema keywords that the backend reports as not enforced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unenforced: Vec<String>,
    /// Further properties for the receipt, such as `forced_close` or `bounded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

/// The replacement for a secret key that was removed from a text.
pub const REDACTED: &str = "[redacted]";

/// The flag of a reply whose tool calls were changed because a secret key was removed from them.
pub const KEY_REMOVED: &str = "key_removed";

/// The reason for which a model stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum StopReason {
    /// The reply is complete.
    #[default]
    Finished,
    /// The token budget was exhausted, so the reply is truncated.
    Length,
    /// The model called tools.
    ToolCalls,
    /// The model declined.
    Refused {
        /// The model's explanation; empty if it gave none.
        message: String,
    },
    /// A content filter cut the reply off.
    Filtered,
}

/// The number of tokens that one call consumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens in the request.
    pub input: u64,
    /// Tokens in the reply.
    pub output: u64,
    /// Whether the numbers are estimates, because the backend reported none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

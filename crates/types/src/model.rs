//! What is asked of a model and what it answers, whatever the protocol in between.

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
    /// The tools the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Whether it has to.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// The form the backend is asked to give the answer.
    #[serde(default)]
    pub format: Format,
    /// The most tokens to write; the backend's own default when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The backend's setting when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The backend's setting when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The contract's schema, for executors that have a way of their own to satisfy it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_hint: Option<Value>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
    /// The calls an assistant made with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A user's message.
    pub fn user(content: impl Into<String>) -> Message {
        Message { role: Role::User, content: content.into(), tool_calls: Vec::new(), tool_call_id: None }
    }

    /// An assistant's message.
    pub fn assistant(content: impl Into<String>, tool_calls: Vec<ToolCall>) -> Message {
        Message { role: Role::Assistant, content: content.into(), tool_calls, tool_call_id: None }
    }

    /// The answer to a tool call.
    pub fn tool(call: &str, content: impl Into<String>) -> Message {
        Message {
            role: Role::Tool,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: Some(call.to_owned()),
        }
    }
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The caller.
    User,
    /// The model.
    Assistant,
    /// A tool, answering a call.
    Tool,
}

/// A tool as shown to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The schema of its arguments.
    pub parameters: Value,
    /// Whether the backend is asked to enforce that schema.
    #[serde(default)]
    pub strict: bool,
}

/// Whether the model has to call a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// It may.
    #[default]
    Auto,
    /// It has to call one.
    Required,
    /// It has to call this one.
    Named(String),
    /// It may not, though it may have before.
    None,
}

/// A call the model made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The backend's id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them; not necessarily JSON.
    pub arguments: String,
}

/// The form the backend is asked to give the answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Format {
    /// No particular form.
    #[default]
    Text,
    /// Some JSON object; a few servers take a schema along with it.
    JsonObject {
        /// The schema, for servers that take one here.
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

/// What a model answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The answer.
    pub text: String,
    /// What the model thought aloud, where the backend tells it apart.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The tools it called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What the call consumed.
    #[serde(default)]
    pub usage: Usage,
    /// The model that answered, as the backend names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Keywords of the schema that the backend says it did not enforce.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unenforced: Vec<String>,
    /// What else the backend says of the answer, in the words of a receipt: `forced_close`, `bounded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

/// What stands where a key stood.
pub const REDACTED: &str = "[redacted]";

/// The flag of a reply whose calls are not what the model wrote, because a key was taken out of them.
pub const KEY_REMOVED: &str = "key_removed";

/// Why a model stopped writing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum StopReason {
    /// It was done.
    #[default]
    Finished,
    /// The token budget ran out: whatever was written is cut off.
    Length,
    /// It called tools.
    ToolCalls,
    /// It declined.
    Refused {
        /// Its words, if it gave any.
        message: String,
    },
    /// A filter cut the answer off.
    Filtered,
}

/// Tokens consumed by one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Whether the figures were estimated because the backend gave none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

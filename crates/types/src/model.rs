//! Requests to a model and its replies, independent of the backend's protocol.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// Whether the server's own limit applies if `max_tokens` is not set, instead of the backend's default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_no_budget: bool,
    /// Whether a server is asked for the whole reply at once, without progress.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole: bool,
    /// Whether one reply may make several tool calls; `None` for the backend's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// The sampling parameters.
    #[serde(flatten)]
    pub sampling: Sampling,
    /// The contract's schema, for command backends that enforce it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_hint: Option<Value>,
}

impl Request {
    /// Returns the request with the names of authors in the texts of their messages, for servers that know no names.
    pub fn with_names_in_text(&self) -> Cow<'_, Request> {
        if self.messages.iter().all(|message| message.name.is_none()) {
            return Cow::Borrowed(self);
        }
        let messages = self.messages.iter().map(Message::with_name_in_text).collect();
        Cow::Owned(Request { messages, ..self.clone() })
    }
}

/// The sampling parameters of a request; unset ones have the backend's defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// The temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The probability mass that tokens are chosen from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The penalty of tokens by how often they occurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// The penalty of tokens that occurred at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// The seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Texts that end the reply; they are not part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The effort of reasoning models, such as `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<Box<str>>,
    /// Members for servers of OpenAI's API that are passed on as they are, such as `top_k`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub further: Option<Arc<BTreeMap<String, Value>>>,
}

impl Sampling {
    /// Returns whether no parameter is set.
    pub fn is_empty(&self) -> bool {
        *self == Sampling::default()
    }

    /// Returns the names of the parameters that differ from their defaults, as OpenAI's API names them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let differs = |value: Option<f64>, default: f64| value.is_some_and(|value| value != default);
        let known = [
            ("temperature", differs(self.temperature, 1.0)),
            ("top_p", differs(self.top_p, 1.0)),
            ("frequency_penalty", differs(self.frequency_penalty, 0.0)),
            ("presence_penalty", differs(self.presence_penalty, 0.0)),
            ("seed", self.seed.is_some()),
            ("stop", !self.stop.is_empty()),
            ("reasoning_effort", self.reasoning_effort.is_some()),
        ];
        let further = self.further.iter().flat_map(|members| members.keys().map(String::as_str));
        let further = further.filter(|name| !ACCOUNT_MEMBERS.contains(name));
        known.into_iter().filter_map(|(name, is_set)| is_set.then_some(name)).chain(further)
    }
}

/// Sampling parameters in [`Sampling::further`] that servers of OpenAI's API may know.
pub const FURTHER_SAMPLING: [&str; 10] = [
    "logit_bias",
    "verbosity",
    "top_k",
    "min_p",
    "min_tokens",
    "repetition_penalty",
    "stop_token_ids",
    "chat_template_kwargs",
    "reasoning",
    "thinking",
];

/// Members of requests that do not change the answer. Backends that do not know them do without.
pub const ACCOUNT_MEMBERS: [&str; 6] =
    ["user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier", "store"];

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The author of the message.
    pub role: Role,
    /// The name of the author, if several have the same role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text of the message.
    pub content: String,
    /// The texts and images of the message in order, if it has images. `content` joins the texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
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
        Message::of(Role::User, content)
    }

    /// Creates an assistant's message.
    pub fn assistant(content: impl Into<String>, tool_calls: Vec<ToolCall>) -> Message {
        Message { tool_calls, ..Message::of(Role::Assistant, content) }
    }

    /// Creates the answer to a tool call.
    pub fn tool(call: &str, content: impl Into<String>) -> Message {
        Message { tool_call_id: Some(call.to_owned()), ..Message::of(Role::Tool, content) }
    }

    /// Creates a message without calls and images.
    pub fn of(role: Role, content: impl Into<String>) -> Message {
        Message {
            role,
            name: None,
            content: content.into(),
            parts: Vec::new(),
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }

    /// Appends another message of the same author, after an empty line.
    pub fn append(&mut self, other: &Message) {
        if !(self.parts.is_empty() && other.parts.is_empty()) {
            let text_of = |message: &Message| Part::Text { text: message.content.clone() };
            if self.parts.is_empty() {
                self.parts.push(text_of(self));
            }
            let parts = if other.parts.is_empty() { vec![text_of(other)] } else { other.parts.clone() };
            self.parts.extend(parts);
        }
        self.content.push_str("\n\n");
        self.content.push_str(&other.content);
    }

    fn with_name_in_text(&self) -> Message {
        let Some(name) = &self.name else { return self.clone() };
        let named = |text: &str| format!("{name}: {text}");
        let mut message = Message { name: None, content: named(&self.content), ..self.clone() };
        if let Some(text) = message.parts.iter_mut().find_map(Part::text_mut) {
            *text = named(text);
        } else if !message.parts.is_empty() {
            message.parts.insert(0, Part::Text { text: named("") });
        }
        message
    }

    /// Returns whether the message has an image.
    pub fn has_image(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Image { .. }))
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Part {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// Its URL, or its data as a `data:` URL.
        url: String,
        /// The resolution that the model is asked to see it in, such as `low`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
}

impl Part {
    fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Part::Text { text } => Some(text),
            Part::Image { .. } => None,
        }
    }
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions inside a conversation. Those at its beginning are the request's `system`.
    System,
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
        schema: Option<Arc<Value>>,
    },
    /// JSON that satisfies a schema.
    JsonSchema {
        /// A name for the schema; some servers require one.
        name: String,
        /// The schema, lowered to what the backend accepts.
        schema: Arc<Value>,
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

/// The message of a run that failed because a content filter cut off the reply.
pub const FILTERED_MESSAGE: &str = "the backend's content filter cut the reply off";

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

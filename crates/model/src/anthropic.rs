//! Backend for Anthropic's messages API.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use slipform_types::{Format, Message, Part, Reply, Request, Role, StopReason, Tool, ToolCall, ToolChoice};

use crate::config::BackendConfig;
use crate::error::Error;
use crate::error_text::server_message;
use crate::http::{Address, Assemble, Http, Post};
use crate::openai::{TOOL_CALLS_MAX, arguments, merged};
use crate::secret::Secret;
use crate::sse::Event;
use crate::{Backend, Call, CallFuture};

/// Sent as the `anthropic-version` header.
const VERSION: &str = "2023-06-01";

/// The default of `max_tokens`, which the protocol requires. Used if neither request nor settings have one.
const MAX_TOKENS_DEFAULT: u32 = 4096;

/// Replaces the text of an empty assistant turn, because the protocol rejects empty texts.
const EMPTY_TURN: &str = "(nothing)";

/// A server that implements the messages API.
#[derive(Debug)]
pub(crate) struct Anthropic {
    http: Http,
    url: Address,
    model: String,
    temperature: Option<f64>,
    max_tokens: u32,
}

impl Anthropic {
    pub(crate) fn new(config: &BackendConfig, secret: Secret) -> Result<Anthropic, Error> {
        let base = config.url()?;
        let base = base.strip_suffix("/v1").unwrap_or(&base);
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(VERSION));
        if let Some(key) = secret.expose() {
            let mut value = HeaderValue::from_str(key).map_err(|_| {
                Error::Settings("the key contains characters that HTTP headers do not allow".to_owned())
            })?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static("x-api-key"), value);
        }
        Ok(Anthropic {
            http: Http::new(config, secret, headers)?,
            url: format!("{base}/v1/messages").into(),
            model: config.model.clone().unwrap_or_default(),
            temperature: config.temperature,
            max_tokens: config.max_tokens.unwrap_or(MAX_TOKENS_DEFAULT),
        })
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        let mut body = Map::new();
        if !self.model.is_empty() {
            body.insert("model".to_owned(), json!(self.model));
        }
        body.insert("max_tokens".to_owned(), json!(request.max_tokens.unwrap_or(self.max_tokens)));
        body.insert("stream".to_owned(), json!(true));
        if let Some(system) = &request.system {
            body.insert("system".to_owned(), json!(system));
        }
        let sampling = &request.sampling;
        // Models refuse a temperature beside `top_p`, so that of the settings gives way.
        let own = self.temperature.filter(|_| sampling.top_p.is_none_or(|top_p| top_p >= 1.0));
        if let Some(temperature) = sampling.temperature.or(own) {
            body.insert("temperature".to_owned(), json!(temperature));
        }
        // Clients send the default beside a temperature, and models refuse both together.
        if let Some(top_p) = sampling.top_p.filter(|top_p| *top_p < 1.0) {
            body.insert("top_p".to_owned(), json!(top_p));
        }
        if !sampling.stop.is_empty() {
            body.insert("stop_sequences".to_owned(), json!(sampling.stop));
        }
        body.insert("messages".to_owned(), messages(request));
        let called = if request.tools.is_empty() { called_tools(&request.messages) } else { Vec::new() };
        if !called.is_empty() {
            body.insert("tools".to_owned(), called.iter().map(tool).collect());
            body.insert("tool_choice".to_owned(), json!({"type": "none"}));
        }
        if !request.tools.is_empty() {
            body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
            let choice = match &request.tool_choice {
                ToolChoice::Auto if request.parallel_tool_calls == Some(false) => {
                    Some(json!({"type": "auto"}))
                }
                ToolChoice::Auto => None,
                ToolChoice::Required => Some(json!({"type": "any"})),
                ToolChoice::Named(name) => Some(json!({"type": "tool", "name": name})),
                ToolChoice::None => Some(json!({"type": "none"})),
            };
            let choice = choice.map(|mut choice| {
                if request.parallel_tool_calls == Some(false) && choice["type"] != "none" {
                    choice["disable_parallel_tool_use"] = json!(true);
                }
                choice
            });
            body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
        }
        if let Format::JsonSchema { schema, .. } = &request.format {
            let format = json!({"type": "json_schema", "schema": schema});
            body.insert("output_config".to_owned(), json!({"format": format}));
        }
        Value::Object(body).to_string().into_bytes()
    }
}

impl Backend for Anthropic {
    fn features(&self) -> &'static [&'static str] {
        &["json_schema", "tools", "forced_tools"]
    }

    fn sampling(&self) -> &'static [&'static str] {
        &["temperature", "top_p", "stop"]
    }

    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        let body = self.body(&call.request.with_names_in_text());
        Box::pin(async move {
            let post = Post { url: &self.url, body: &body, call };
            self.http.call::<Assembly>(post).await
        })
    }
}

/// Returns a definition of each tool that the conversation has calls of. The protocol requires one.
fn called_tools(messages: &[Message]) -> Vec<Tool> {
    let mut tools: Vec<Tool> = Vec::new();
    for call in messages.iter().flat_map(|message| &message.tool_calls) {
        if !tools.iter().any(|tool| tool.name == call.name) {
            let parameters = json!({"type": "object"});
            let description = String::new();
            tools.push(Tool { name: call.name.clone(), description, parameters, strict: false });
        }
    }
    tools
}

fn tool(tool: &Tool) -> Value {
    let mut shown =
        json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters});
    if tool.strict {
        shown["strict"] = json!(true);
    }
    shown
}

fn messages(request: &Request) -> Value {
    let mut list: Vec<Value> = Vec::with_capacity(request.messages.len());
    for message in merged(&request.messages) {
        match message.role {
            // The protocol has no instructions inside a conversation.
            Role::User | Role::System => {
                list.push(json!({"role": "user", "content": user_content(&message)}))
            }
            Role::Assistant => {
                list.push(json!({"role": "assistant", "content": assistant_blocks(&message)}));
            }
            Role::Tool => {
                let block = json!({
                    "type": "tool_result",
                    "tool_use_id": tool_use_id(message.tool_call_id.as_deref().unwrap_or_default()),
                    "content": message.content,
                });
                // The protocol requires the results of parallel calls in one message.
                let blocks = list.last_mut().and_then(|last| last["content"].as_array_mut());
                match blocks.filter(|blocks| blocks[0]["type"] == "tool_result") {
                    Some(blocks) => blocks.push(block),
                    None => list.push(json!({"role": "user", "content": [block]})),
                }
            }
        }
    }
    Value::Array(list)
}

/// Returns the content of a user's message: a text, or the list of its parts if it has images.
fn user_content(message: &Message) -> Value {
    if message.parts.is_empty() {
        return json!(if is_blank(&message.content) { EMPTY_TURN } else { &message.content });
    }
    let part = |part: &Part| match part {
        // The protocol refuses blank texts.
        Part::Text { text } if is_blank(text) => None,
        Part::Text { text } => Some(json!({"type": "text", "text": text})),
        Part::Image { url, .. } => Some(json!({"type": "image", "source": image_source(url)})),
    };
    message.parts.iter().filter_map(part).collect()
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns an id that the protocol accepts; ids of other servers may have other characters.
fn tool_use_id(id: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let plain: String =
        id.chars().map(|character| if is_plain(character) { character } else { '_' }).collect();
    if plain.is_empty() { "call".to_owned() } else { plain }
}

/// Returns the source of an image: the data of a `data:` URL, or another URL.
fn image_source(url: &str) -> Value {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((media_type, data)) => json!({"type": "base64", "media_type": media_type, "data": data}),
        None => json!({"type": "url", "url": url}),
    }
}

fn assistant_blocks(message: &Message) -> Vec<Value> {
    let mut blocks = Vec::new();
    if !is_blank(&message.content) {
        blocks.push(json!({"type": "text", "text": message.content}));
    } else if message.tool_calls.is_empty() {
        // Omitting the turn would break the required alternation of roles.
        blocks.push(json!({"type": "text", "text": EMPTY_TURN}));
    }
    for call in &message.tool_calls {
        let input = arguments(call).unwrap_or_else(|substitute| substitute);
        blocks.push(
            json!({"type": "tool_use", "id": tool_use_id(&call.id), "name": call.name, "input": input}),
        );
    }
    blocks
}

/// Assembles a [`Reply`] from stream events or a complete body.
#[derive(Debug, Default)]
struct Assembly {
    reply: Reply,
    /// For each content block, the index of its tool call in `reply`; `None` for other blocks.
    blocks: Vec<Option<usize>>,
    stop_reason: Option<String>,
    /// Set by `message_stop`, or by a complete body.
    is_stopped: bool,
    deltas: u64,
}

impl Assembly {
    fn apply(&mut self, body: &Value) -> Result<(), Error> {
        match body["type"].as_str().unwrap_or_default() {
            "message_start" => self.start(&body["message"]),
            "content_block_start" => self.add_block(&body["content_block"])?,
            "content_block_delta" => self.add_delta(body),
            "message_delta" => {
                self.set_usage(&body["usage"]);
                self.set_stop_reason(&body["delta"]);
            }
            "message_stop" => self.is_stopped = true,
            "error" => return Err(error_event(body)),
            // Pings and event types of later protocol versions.
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, message: &Value) {
        self.reply.model = message["model"].as_str().unwrap_or_default().to_owned();
        self.set_usage(&message["usage"]);
    }

    fn set_usage(&mut self, usage: &Value) {
        let count = |name: &str| usage[name].as_u64();
        let cached = ["cache_read_input_tokens", "cache_creation_input_tokens"];
        let cached = cached.iter().filter_map(|name| count(name)).fold(0, u64::saturating_add);
        if let Some(input) = count("input_tokens") {
            self.reply.usage.input = input.saturating_add(cached);
        }
        if let Some(output) = count("output_tokens") {
            self.reply.usage.output = output;
        }
    }

    fn set_stop_reason(&mut self, object: &Value) {
        if let Some(reason) = object["stop_reason"].as_str() {
            self.stop_reason = Some(reason.to_owned());
        }
    }

    fn add_block(&mut self, block: &Value) -> Result<(), Error> {
        if self.blocks.len() >= TOOL_CALLS_MAX * 2 {
            return Err(Error::Incomplete { reason: "the reply has too many content blocks".to_owned() });
        }
        let text = |name: &str| block[name].as_str().unwrap_or_default();
        let mut call = None;
        match text("type") {
            "text" => self.reply.text.push_str(text("text")),
            "thinking" => self.reply.reasoning.push_str(text("thinking")),
            "tool_use" => {
                call = Some(self.reply.tool_calls.len());
                // In a stream the input starts as an empty object. Some servers send the model's text as a string.
                let arguments = match &block["input"] {
                    Value::Null => String::new(),
                    Value::Object(input) if input.is_empty() => String::new(),
                    Value::String(input) => input.clone(),
                    input => input.to_string(),
                };
                let (id, name) = (text("id").to_owned(), text("name").to_owned());
                self.reply.tool_calls.push(ToolCall { id, name, arguments });
            }
            _ => {}
        }
        self.blocks.push(call);
        Ok(())
    }

    fn add_delta(&mut self, body: &Value) {
        self.deltas += 1;
        let delta = &body["delta"];
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        match text("type") {
            "text_delta" => self.reply.text.push_str(text("text")),
            "thinking_delta" => self.reply.reasoning.push_str(text("thinking")),
            "input_json_delta" => {
                let index = body["index"].as_u64().and_then(|index| usize::try_from(index).ok());
                let call = index.and_then(|index| *self.blocks.get(index)?);
                if let Some(call) = call.and_then(|call| self.reply.tool_calls.get_mut(call)) {
                    call.arguments.push_str(text("partial_json"));
                }
            }
            _ => {}
        }
    }
}

/// Converts an `error` event, which a server may send in the middle of a stream.
fn error_event(body: &Value) -> Error {
    let message = server_message(body.to_string().as_bytes());
    match body["error"]["type"].as_str() {
        Some("invalid_request_error" | "authentication_error" | "permission_error" | "not_found_error") => {
            Error::Rejected { status: 400, message }
        }
        Some("overloaded_error") => Error::Busy { status: 529, message, retry_after: None },
        _ => Error::Busy { status: 500, message, retry_after: None },
    }
}

/// Parses one event or a complete body; both are JSON objects.
fn parse_object(data: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice::<Map<String, Value>>(data).map(Value::Object).map_err(|error| {
        let reason = format!("a part of the reply is not the expected JSON ({error})");
        Error::Incomplete { reason }
    })
}

impl Assemble for Assembly {
    fn event(&mut self, event: &Event<'_>) -> Result<(), Error> {
        let data = event.data.trim_ascii();
        // Gateways to other models use the keep-alives and the end marker of chat completions.
        if data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        let mut body = parse_object(data)?;
        if body["type"].is_null() {
            body["type"] = json!(event.name);
        }
        self.apply(&body)
    }

    fn full_body(&mut self, body: &[u8]) -> Result<(), Error> {
        let body = parse_object(body)?;
        if body["type"] == "error" {
            return Err(error_event(&body));
        }
        let Some(blocks) = body["content"].as_array() else {
            return Err(Error::Incomplete { reason: "it has no `content`".to_owned() });
        };
        self.start(&body);
        for block in blocks {
            self.add_block(block)?;
        }
        self.set_stop_reason(&body);
        self.is_stopped = true;
        Ok(())
    }

    fn tokens(&self) -> u64 {
        self.deltas
    }

    fn reply(&self) -> &Reply {
        &self.reply
    }

    fn is_complete(&self) -> bool {
        self.stop_reason.is_some()
    }

    fn is_done(&self) -> bool {
        self.is_stopped
    }

    fn finish(mut self) -> Result<Reply, Error> {
        if self.stop_reason.is_none() && !self.is_stopped {
            return Err(Error::Incomplete {
                reason: "the stream ended without a stop_reason and without message_stop".to_owned(),
            });
        }
        // A call without arguments is reported as an empty object.
        for call in &mut self.reply.tool_calls {
            if call.arguments.is_empty() {
                call.arguments.push_str("{}");
            }
        }
        self.reply.stop = match self.stop_reason.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded" | "pause_turn") => StopReason::Length,
            Some("refusal") => StopReason::Refused { message: self.reply.text.clone() },
            _ if !self.reply.tool_calls.is_empty() => StopReason::ToolCalls,
            _ => StopReason::Finished,
        };
        Ok(self.reply)
    }
}

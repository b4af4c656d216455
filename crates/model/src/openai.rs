//! Chat completions: OpenAI, LM Studio, Ollama, vLLM, llama.cpp and everyone who speaks like them. What is
//! asked is here, what comes back in `reply`.

mod reply;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::Serialize;
use serde_json::{Map, Value, json};
use slipform_schema::Dialect;
use slipform_types::{Format, Message, Reply, Request, Role, Tool, ToolCall, ToolChoice};

use crate::config::BackendConfig;
use crate::error::Error;
use crate::http::{Http, Post};
use crate::secret::Secret;
use crate::{Backend, Call, CallFuture};

use reply::Chat;

/// The most tool calls in one reply; a model that makes more has lost its way.
pub(crate) const TOOL_CALLS_MAX: usize = 128;

/// A chat completions server.
#[derive(Debug)]
pub(crate) struct OpenAi {
    endpoint: Endpoint,
    base: String,
    defaults: Defaults,
}

/// Where chats, or the older completions, are asked for.
#[derive(Debug)]
pub(crate) struct Endpoint {
    http: Http,
    url: String,
    /// Whether the server has refused `stream_options`, with which it is asked to count tokens.
    refuses_counting: AtomicBool,
}

impl Endpoint {
    pub(crate) fn new(config: &BackendConfig, secret: Secret, url: String) -> Result<Endpoint, Error> {
        let headers = bearer(&secret)?;
        let http = Http::new(config, secret, headers)?;
        Ok(Endpoint { http, url, refuses_counting: AtomicBool::new(false) })
    }

    /// Asks for a stream with counted tokens; a server that does not know how to count is asked without, once
    /// more now and never again later.
    pub(crate) async fn ask(&self, call: Call<'_>, mut body: Map<String, Value>) -> Result<Reply, Error> {
        const COUNTING: &str = "stream_options";
        body.insert("stream".to_owned(), json!(true));
        if !self.refuses_counting.load(Ordering::Relaxed) {
            body.insert(COUNTING.to_owned(), json!({"include_usage": true}));
        }
        let outcome = self.post(call, &body).await;
        let Err(Error::Rejected { status: 400 | 422, message }) = &outcome else { return outcome };
        let named = message.contains(COUNTING) || message.contains("include_usage");
        if !named || body.shift_remove(COUNTING).is_none() {
            return outcome;
        }
        let outcome = self.post(call, &body).await;
        // A server that only repeats the request in its complaint is as unhappy without.
        if !matches!(outcome, Err(Error::Rejected { .. })) {
            self.refuses_counting.store(true, Ordering::Relaxed);
        }
        outcome
    }

    async fn post(&self, call: Call<'_>, body: &Map<String, Value>) -> Result<Reply, Error> {
        let body = EventBody { rest: body, response_format: ResponseFormat::of(&call.request.format) };
        let body = serde_json::to_vec(&body)
            .map_err(|error| Error::Settings(format!("the request cannot be written: {error}")))?;
        let post = Post { url: &self.url, body: &body, request: call.request, watch: call.watch };
        self.http.call::<Chat>(post).await
    }
}

/// A request's body. The schema is borrowed: it is the largest part of many requests.
#[derive(Serialize)]
struct EventBody<'a> {
    #[serde(flatten)]
    rest: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'a> {
    JsonObject {
        #[serde(skip_serializing_if = "Option::is_none")]
        schema: Option<&'a Value>,
    },
    JsonSchema {
        json_schema: NamedSchema<'a>,
    },
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'a str,
    strict: bool,
    schema: &'a Value,
}

impl<'a> ResponseFormat<'a> {
    fn of(format: &'a Format) -> Option<ResponseFormat<'a>> {
        match format {
            Format::Text => None,
            Format::JsonObject { schema } => Some(ResponseFormat::JsonObject { schema: schema.as_ref() }),
            Format::JsonSchema { name, schema, strict } => Some(ResponseFormat::JsonSchema {
                json_schema: NamedSchema { name, strict: *strict, schema },
            }),
        }
    }
}

/// What the configuration says where a request does not.
#[derive(Debug, Clone)]
pub(crate) struct Defaults {
    pub(crate) model: String,
    pub(crate) temperature: Option<f64>,
    pub(crate) seed: Option<u64>,
    pub(crate) max_tokens: Option<u32>,
    /// OpenAI's newer models refuse `max_tokens`; other servers know nothing else.
    pub(crate) max_tokens_name: &'static str,
}

impl Defaults {
    pub(crate) fn new(config: &BackendConfig) -> Defaults {
        let info = config.info(slipform_types::Capabilities::default(), None);
        let official = info.dialect == Dialect::OpenAi.to_string();
        Defaults {
            model: info.model,
            temperature: config.temperature,
            seed: config.seed,
            max_tokens: config.max_tokens,
            max_tokens_name: if official { "max_completion_tokens" } else { "max_tokens" },
        }
    }

    /// The sampling settings of a request.
    pub(crate) fn apply(&self, request: &Request, body: &mut Map<String, Value>) {
        if !self.model.is_empty() {
            body.insert("model".to_owned(), json!(self.model));
        }
        if let Some(max_tokens) = request.max_tokens.or(self.max_tokens) {
            body.insert(self.max_tokens_name.to_owned(), json!(max_tokens));
        }
        if let Some(temperature) = request.temperature.or(self.temperature) {
            body.insert("temperature".to_owned(), json!(temperature));
        }
        if let Some(seed) = request.seed.or(self.seed) {
            body.insert("seed".to_owned(), json!(seed));
        }
    }
}

/// The header that carries a key to OpenAI-like servers.
fn bearer(secret: &Secret) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    if let Some(key) = secret.expose() {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| Error::Settings("the key holds characters that no header may carry".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

impl OpenAi {
    pub(crate) fn new(config: &BackendConfig, secret: Secret) -> Result<OpenAi, Error> {
        let base = config.url()?;
        let endpoint = Endpoint::new(config, secret, format!("{base}/chat/completions"))?;
        Ok(OpenAi { endpoint, base, defaults: Defaults::new(config) })
    }

    fn body(&self, request: &Request) -> Map<String, Value> {
        let mut body = Map::new();
        self.defaults.apply(request, &mut body);
        body.insert("messages".to_owned(), messages(request));
        if !request.tools.is_empty() {
            body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
            let choice = match &request.tool_choice {
                ToolChoice::Auto => None,
                ToolChoice::Required => Some(json!("required")),
                ToolChoice::Named(name) => Some(json!({"type": "function", "function": {"name": name}})),
                ToolChoice::None => Some(json!("none")),
            };
            body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
        }
        body
    }
}

impl Backend for OpenAi {
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        let body = self.body(call.request);
        Box::pin(self.endpoint.ask(call, body))
    }

    fn about(&self) -> std::pin::Pin<Box<dyn Future<Output = Option<Value>> + Send + '_>> {
        Box::pin(async move { self.endpoint.http.get(&format!("{}/models", self.base)).await.ok() })
    }
}

fn messages(request: &Request) -> Value {
    let mut list = Vec::with_capacity(request.messages.len() + 1);
    if let Some(system) = &request.system {
        list.push(json!({"role": "system", "content": system}));
    }
    for message in merged(&request.messages) {
        list.push(match message.role {
            Role::User => json!({"role": "user", "content": message.content}),
            Role::Tool => {
                json!({"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content})
            }
            Role::Assistant if message.tool_calls.is_empty() => {
                json!({"role": "assistant", "content": message.content})
            }
            Role::Assistant => {
                let calls: Vec<Value> = message.tool_calls.iter().map(tool_call).collect();
                let content = if message.content.is_empty() { Value::Null } else { json!(message.content) };
                json!({"role": "assistant", "content": content, "tool_calls": calls})
            }
        });
    }
    Value::Array(list)
}

/// Neighbouring messages of one role as one: many chat templates insist on alternation.
pub(crate) fn merged(messages: &[Message]) -> Vec<Cow<'_, Message>> {
    let mut list: Vec<Cow<'_, Message>> = Vec::with_capacity(messages.len());
    for message in messages {
        match list.last_mut() {
            Some(last) if last.role == Role::User && message.role == Role::User => {
                let last = last.to_mut();
                last.content.push_str("\n\n");
                last.content.push_str(&message.content);
            }
            _ => list.push(Cow::Borrowed(message)),
        }
    }
    list
}

fn tool(tool: &Tool) -> Value {
    let mut function =
        json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    if tool.strict {
        function["strict"] = json!(true);
    }
    json!({"type": "function", "function": function})
}

fn tool_call(call: &ToolCall) -> Value {
    // What is an object already is sent back as the model wrote it.
    let arguments = arguments(call).map_or_else(|instead| instead.to_string(), |_| call.arguments.clone());
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    })
}

/// The arguments of a call that the model is reminded of. Servers read them again, and some fall over what is no object:
/// the error is an object that can be shown instead.
pub(crate) fn arguments(call: &ToolCall) -> Result<Value, Value> {
    let text = call.arguments.trim();
    if matches!(text, "" | "null") {
        return Err(json!({}));
    }
    let read = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
    read.ok_or_else(|| json!({"invalid_arguments": call.arguments}))
}

//! Backend for the chat completions API of OpenAI, LM Studio, Ollama, vLLM, llama.cpp and compatible servers.
//!
//! This file chooses the members of requests; `body` writes them, and `reply` parses responses.

mod body;
mod reply;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use slipform_schema::Dialect;
use slipform_types::{Message, Reply, Request, Role, ToolCall, ToolChoice};

use crate::config::{BackendConfig, is_small};
use crate::error::Error;
use crate::http::{Address, Http, Post};
use crate::secret::Secret;
use crate::{Backend, Call, CallFuture};

use body::{ChatMembers, RequestBody, ResponseFormat};
use reply::Chat;

/// The most tool calls in one reply. A model that makes more is usually in a loop.
pub(crate) const TOOL_CALLS_MAX: usize = 128;

/// The default token budget of a reply, if neither the request nor the settings have one. It leaves room for the
/// reasoning of a model, which counts, and ends a reply that does not stop before it reaches the timeout. A
/// truncated reply is requested again with a larger budget.
const MAX_TOKENS_DEFAULT: u32 = 8_192;

/// The default token budget of small models, which ramble most and run on slow machines.
const MAX_TOKENS_SMALL: u32 = 2_048;

/// A server that implements the chat completions API.
#[derive(Debug)]
pub(crate) struct OpenAi {
    endpoint: Endpoint,
    base: String,
    defaults: Defaults,
}

/// The URL for chat completions or legacy completions.
#[derive(Debug)]
pub(crate) struct Endpoint {
    http: Http,
    url: Address,
    /// Whether the server has rejected `stream_options`, which requests token counts.
    rejects_stream_options: AtomicBool,
    /// The name and value of the default token budget.
    budget: (&'static str, u32),
    /// Whether the server has rejected the default budget, for example because its context is shorter.
    rejects_budget: AtomicBool,
}

/// A member of a request that a server may reject and that the request can do without.
struct Extra<'a> {
    name: &'static str,
    /// Texts in the server's error that name the member as the cause.
    blamed_by: &'static [&'static str],
    is_rejected: &'a AtomicBool,
}

impl Endpoint {
    pub(crate) fn new(config: &BackendConfig, secret: Secret, url: String) -> Result<Endpoint, Error> {
        let headers = bearer(&secret)?;
        let http = Http::new(config, secret, headers)?;
        let is_small = is_small(config.model.as_deref().unwrap_or_default());
        let max_tokens = if is_small { MAX_TOKENS_SMALL } else { MAX_TOKENS_DEFAULT };
        Ok(Endpoint {
            http,
            url: url.into(),
            rejects_stream_options: AtomicBool::new(false),
            budget: (max_tokens_name(config), max_tokens),
            rejects_budget: AtomicBool::new(false),
        })
    }

    /// Sends a streaming request that asks for token counts and has a token budget.
    ///
    /// If the server rejects `stream_options` or the default budget, sends the request again without them and omits
    /// them from then on.
    pub(crate) async fn send(&self, call: Call<'_>, body: Map<String, Value>) -> Result<Reply, Error> {
        self.send_members(call, body, None).await
    }

    async fn send_members(
        &self,
        call: Call<'_>,
        mut body: Map<String, Value>,
        chat: Option<ChatMembers<'_>>,
    ) -> Result<Reply, Error> {
        const STREAM_OPTIONS: &str = "stream_options";
        let (budget, max_tokens) = self.budget;
        let mut extras = Vec::new();
        let needs_budget = !call.request.has_no_budget && !body.contains_key(budget);
        if needs_budget && !self.rejects_budget.load(Ordering::Relaxed) {
            body.insert(budget.to_owned(), json!(max_tokens));
            let blamed_by = &["max_tokens", "max_completion_tokens", "context length"];
            extras.push(Extra { name: budget, blamed_by, is_rejected: &self.rejects_budget });
        }
        let streams = !call.request.is_whole;
        body.insert("stream".to_owned(), json!(streams));
        if streams && !self.rejects_stream_options.load(Ordering::Relaxed) {
            body.insert(STREAM_OPTIONS.to_owned(), json!({"include_usage": true}));
            let blamed_by = &[STREAM_OPTIONS, "include_usage"];
            extras.push(Extra { name: STREAM_OPTIONS, blamed_by, is_rejected: &self.rejects_stream_options });
        }
        let mut outcome = self.post(call, &body, chat.as_ref()).await;
        let mut omitted = Vec::new();
        while let Err(Error::Rejected { status: 400 | 422, message }) = &outcome {
            let is_blamed = |extra: &mut Extra<'_>| extra.blamed_by.iter().any(|text| message.contains(text));
            let blamed: Vec<Extra<'_>> = extras.extract_if(.., is_blamed).collect();
            if blamed.is_empty() {
                return outcome;
            }
            for extra in blamed {
                body.shift_remove(extra.name);
                omitted.push(extra);
            }
            outcome = self.post(call, &body, chat.as_ref()).await;
        }
        // A message that merely quotes the request names its members too. Then the last attempt fails as well.
        if !matches!(outcome, Err(Error::Rejected { .. })) {
            omitted.iter().for_each(|extra| extra.is_rejected.store(true, Ordering::Relaxed));
        }
        outcome
    }

    async fn post(
        &self,
        call: Call<'_>,
        rest: &Map<String, Value>,
        chat: Option<&ChatMembers<'_>>,
    ) -> Result<Reply, Error> {
        let response_format = ResponseFormat::of(&call.request.format);
        let body = RequestBody { rest, chat, response_format };
        let body = serde_json::to_vec(&body)
            .map_err(|error| Error::Settings(format!("the request cannot be serialized: {error}")))?;
        let post = Post { url: &self.url, body: &body, call };
        self.http.call::<Chat>(post).await
    }
}

/// Settings that apply where a request has no value of its own.
#[derive(Debug, Clone)]
pub(crate) struct Defaults {
    pub(crate) model: String,
    pub(crate) temperature: Option<f64>,
    pub(crate) seed: Option<u64>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) max_tokens_name: &'static str,
}

/// Returns the name of the token budget. OpenAI's newer models reject `max_tokens`; other servers know only that.
fn max_tokens_name(config: &BackendConfig) -> &'static str {
    let info = config.info(slipform_types::Capabilities::default(), None);
    let is_openai = info.dialect == Dialect::OpenAi.to_string();
    if is_openai { "max_completion_tokens" } else { "max_tokens" }
}

impl Defaults {
    pub(crate) fn new(config: &BackendConfig) -> Defaults {
        Defaults {
            model: config.model.clone().unwrap_or_default(),
            temperature: config.temperature,
            seed: config.seed,
            max_tokens: config.max_tokens,
            max_tokens_name: max_tokens_name(config),
        }
    }

    /// Writes model, token limit and sampling settings into a request body.
    pub(crate) fn apply(&self, request: &Request, body: &mut Map<String, Value>) {
        if !self.model.is_empty() {
            body.insert("model".to_owned(), json!(self.model));
        }
        if let Some(max_tokens) = request.max_tokens.or(self.max_tokens) {
            body.insert(self.max_tokens_name.to_owned(), json!(max_tokens));
        }
        let sampling = &request.sampling;
        let seed = sampling.seed.or(self.seed);
        for (name, value) in [
            ("temperature", sampling.temperature.or(self.temperature).map(Value::from)),
            ("top_p", sampling.top_p.map(Value::from)),
            ("frequency_penalty", sampling.frequency_penalty.map(Value::from)),
            ("presence_penalty", sampling.presence_penalty.map(Value::from)),
            ("seed", seed.map(Value::from)),
            ("stop", (!sampling.stop.is_empty()).then(|| json!(sampling.stop))),
            ("reasoning_effort", sampling.reasoning_effort.as_ref().map(|effort| json!(effort))),
        ] {
            body.extend(value.map(|value| (name.to_owned(), value)));
        }
    }
}

/// Builds the `Authorization` header, which is marked as sensitive so that it is not logged.
fn bearer(secret: &Secret) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    if let Some(key) = secret.expose() {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
            Error::Settings("the key contains characters that HTTP headers do not allow".to_owned())
        })?;
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
        let further = request.sampling.further.iter().flat_map(|members| members.iter());
        body.extend(further.map(|(name, value)| (name.clone(), value.clone())));
        if !request.tools.is_empty() {
            let choice = match &request.tool_choice {
                ToolChoice::Auto => None,
                ToolChoice::Required => Some(json!("required")),
                ToolChoice::Named(name) => Some(json!({"type": "function", "function": {"name": name}})),
                ToolChoice::None => Some(json!("none")),
            };
            body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
            let parallel = request.parallel_tool_calls;
            body.extend(parallel.map(|parallel| ("parallel_tool_calls".to_owned(), json!(parallel))));
        }
        body
    }
}

impl Backend for OpenAi {
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        let body = self.body(call.request);
        Box::pin(self.endpoint.send_members(call, body, Some(ChatMembers::of(call.request))))
    }

    fn about(&self) -> std::pin::Pin<Box<dyn Future<Output = Option<Value>> + Send + '_>> {
        Box::pin(async move { self.endpoint.http.get(&format!("{}/models", self.base)).await.ok() })
    }
}

/// Merges consecutive user messages into one, because many chat templates require alternating roles.
pub(crate) fn merged(messages: &[Message]) -> Vec<Cow<'_, Message>> {
    let mut list: Vec<Cow<'_, Message>> = Vec::with_capacity(messages.len());
    for message in messages {
        match list.last_mut() {
            Some(last)
                if last.role == Role::User && message.role == Role::User && last.name == message.name =>
            {
                last.to_mut().append(message);
            }
            _ => list.push(Cow::Borrowed(message)),
        }
    }
    list
}

/// Parses the arguments of an earlier call, to be sent back in the conversation.
///
/// Servers parse them again, and some fail on anything but an object. If the arguments are not an object, the
/// `Err` is a substitute object.
pub(crate) fn arguments(call: &ToolCall) -> Result<Value, Value> {
    let text = call.arguments.trim();
    if matches!(text, "" | "null") {
        return Err(json!({}));
    }
    let object = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
    object.ok_or_else(|| json!({"invalid_arguments": call.arguments}))
}

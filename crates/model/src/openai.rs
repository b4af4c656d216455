//! Chat completions: OpenAI, LM Studio, Ollama, vLLM, llama.cpp and everyone who speaks like them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use formwork_schema::Dialect;
use formwork_types::{Format, Message, Reply, Request, Role, Stop, Tool, ToolCall, ToolChoice, Usage};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::config::BackendConfig;
use crate::error::Error;
use crate::http::{Assemble, Http, server_words};
use crate::secret::Secret;
use crate::sse::Event;
use crate::usage::{prompted, written};
use crate::{Backend, Call, CallFuture};

/// The most tool calls in one reply; a model that makes more is out of its mind.
pub(crate) const TOOL_CALLS_MAX: usize = 128;

/// A chat completions server.
#[derive(Debug)]
pub(crate) struct OpenAi {
    http: Http,
    base: String,
    url: String,
    defaults: Defaults,
}

/// What the configuration says where a request does not.
#[derive(Debug)]
pub(crate) struct Defaults {
    pub(crate) model: String,
    pub(crate) temperature: Option<f64>,
    pub(crate) seed: Option<u64>,
    pub(crate) max_tokens: Option<u32>,
    /// OpenAI's newer models refuse `max_tokens`; other servers know nothing else.
    pub(crate) max_tokens_name: &'static str,
    /// Whether the server has refused `stream_options`, which older ones do not know.
    pub(crate) refuses_stream_options: AtomicBool,
}

impl Defaults {
    pub(crate) fn new(config: &BackendConfig) -> Defaults {
        let info = config.info(formwork_types::Capabilities::default(), None);
        let official = info.dialect == Dialect::OpenAi.to_string();
        Defaults {
            model: info.model,
            temperature: config.temperature,
            seed: config.seed,
            max_tokens: config.max_tokens,
            max_tokens_name: if official { "max_completion_tokens" } else { "max_tokens" },
            refuses_stream_options: AtomicBool::new(false),
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
        body.insert("stream".to_owned(), json!(true));
        if !self.refuses_stream_options.load(Ordering::Relaxed) {
            body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
    }
}

/// Asks a server that speaks like OpenAI's. One that refuses `stream_options` is asked without it, now and from then on:
/// a count of tokens is not worth losing the answer over.
pub(crate) async fn ask(
    http: &Http,
    url: &str,
    defaults: &Defaults,
    call: Call<'_>,
    body: impl Fn(&Request) -> Vec<u8>,
) -> Result<Reply, Error> {
    let sent = !defaults.refuses_stream_options.load(Ordering::Relaxed);
    let mut outcome = http.call::<Chat>(url, &body(call.request), call.watch).await;
    if let Err(Error::Rejected { status: 400 | 422, message }) = &outcome
        && sent
        && message.contains("stream_options")
    {
        defaults.refuses_stream_options.store(true, Ordering::Relaxed);
        outcome = http.call::<Chat>(url, &body(call.request), call.watch).await;
    }
    outcome.map(|reply| prompted(reply, call.request))
}

/// The header that carries a key to OpenAI-like servers.
pub(crate) fn bearer(secret: &Secret) -> Result<HeaderMap, Error> {
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
        let headers = bearer(&secret)?;
        Ok(OpenAi {
            http: Http::new(config, secret, headers)?,
            url: format!("{base}/chat/completions"),
            base,
            defaults: Defaults::new(config),
        })
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        let mut body = Map::new();
        self.defaults.apply(request, &mut body);
        body.insert("messages".to_owned(), messages(request));
        if !request.tools.is_empty() {
            body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
            if let ToolChoice::Named(name) = &request.tool_choice {
                body.insert(
                    "tool_choice".to_owned(),
                    json!({"type": "function", "function": {"name": name}}),
                );
            }
        }
        match &request.format {
            Format::Text => {}
            Format::JsonObject { schema } => {
                let mut format = json!({"type": "json_object"});
                if let Some(schema) = schema {
                    format["schema"] = schema.clone();
                }
                body.insert("response_format".to_owned(), format);
            }
            Format::JsonSchema { name, schema, strict } => {
                let json_schema = json!({"name": name, "strict": strict, "schema": schema});
                let format = json!({"type": "json_schema", "json_schema": json_schema});
                body.insert("response_format".to_owned(), format);
            }
        }
        Value::Object(body).to_string().into_bytes()
    }
}

impl Backend for OpenAi {
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        Box::pin(ask(&self.http, &self.url, &self.defaults, call, |request| self.body(request)))
    }

    fn about(&self) -> std::pin::Pin<Box<dyn Future<Output = Option<Value>> + Send + '_>> {
        Box::pin(async move { self.http.get(&format!("{}/models", self.base)).await.ok() })
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
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}

/// A reply being put together.
#[derive(Debug, Default)]
pub(crate) struct Chat {
    reply: Reply,
    refusal: String,
    finish: Option<String>,
    done: bool,
    pieces: u64,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Counts>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default, alias = "delta")]
    message: Option<Piece<'a>>,
    /// The older completions protocol has its text here.
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reasoning_content: Option<Cow<'a, str>>,
    /// The newer name; some servers send the same text under both.
    #[serde(borrow, default)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallPiece<'a>>>,
}

#[derive(Deserialize)]
struct CallPiece<'a> {
    #[serde(default)]
    index: Option<usize>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    function: Option<FunctionPiece<'a>>,
}

#[derive(Deserialize)]
struct FunctionPiece<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct Counts {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl Chat {
    fn take(&mut self, data: &[u8]) -> Result<(), Error> {
        let body: Body<'_> = serde_json::from_slice(data).map_err(|error| Error::Incomplete {
            reason: format!("a part of the reply is not the JSON the protocol wants ({error})"),
        })?;
        if let Some(error) = body.error.filter(|error| !error.is_null()) {
            return Err(error_inside(&error));
        }
        if let Some(model) = body.model
            && self.reply.model.is_empty()
        {
            self.reply.model = model.into_owned();
        }
        if let Some(counts) = body.usage {
            let (input, output) = (counts.prompt_tokens, counts.completion_tokens);
            self.reply.usage =
                Usage { input: input.unwrap_or(0), output: output.unwrap_or(0), estimated: false };
        }
        // Only the first choice is asked for.
        if let Some(choice) = body.choices.into_iter().flatten().next() {
            self.choice(choice)?;
        }
        Ok(())
    }

    fn choice(&mut self, choice: Choice<'_>) -> Result<(), Error> {
        self.pieces += 1;
        if let Some(text) = choice.text {
            self.reply.text.push_str(&text);
        }
        if let Some(piece) = choice.message {
            if let Some(content) = piece.content {
                self.reply.text.push_str(&content);
            }
            if let Some(reasoning) = piece.reasoning_content.or(piece.reasoning) {
                self.reply.reasoning.push_str(&reasoning);
            }
            if let Some(refusal) = piece.refusal {
                self.refusal.push_str(&refusal);
            }
            for call in piece.tool_calls.unwrap_or_default() {
                self.call(call)?;
            }
        }
        if let Some(reason) = choice.finish_reason {
            self.finish = Some(reason.into_owned());
        }
        Ok(())
    }

    fn call(&mut self, piece: CallPiece<'_>) -> Result<(), Error> {
        let calls = &mut self.reply.tool_calls;
        // Some servers leave the index out and send each call whole.
        let index = match piece.index {
            Some(index) => index,
            None if piece.id.is_some() || calls.is_empty() => calls.len(),
            None => calls.len() - 1,
        };
        if index >= TOOL_CALLS_MAX {
            return Err(Error::Incomplete { reason: format!("more than {TOOL_CALLS_MAX} tool calls") });
        }
        while calls.len() <= index {
            let id = format!("call_{}", calls.len());
            calls.push(ToolCall { id, name: String::new(), arguments: String::new() });
        }
        let call = &mut calls[index];
        if let Some(id) = piece.id.filter(|id| !id.is_empty()) {
            call.id = id.into_owned();
        }
        if let Some(function) = piece.function {
            // Most servers send the name once, some in every piece, some in pieces of its own.
            if let Some(name) = function.name
                && call.arguments.is_empty()
                && call.name != name
            {
                call.name.push_str(&name);
            }
            match function.arguments {
                Some(Value::String(arguments)) => call.arguments.push_str(&arguments),
                // Some servers give the arguments as an object.
                Some(Value::Null) | None => {}
                Some(arguments) => call.arguments.push_str(&arguments.to_string()),
            }
        }
        Ok(())
    }
}

/// An error that a server reports inside a reply that began well.
pub(crate) fn error_inside(error: &Value) -> Error {
    let message = server_words(json!({"error": error}).to_string().as_bytes());
    let code = error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64);
    match code.and_then(|code| u16::try_from(code).ok()) {
        Some(status) if (400..500).contains(&status) && !matches!(status, 408 | 429) => {
            Error::Rejected { status, message }
        }
        status => Error::Busy { status: status.unwrap_or(500), message, retry_after: None },
    }
}

impl Assemble for Chat {
    fn event(&mut self, event: &Event<'_>) -> Result<(), Error> {
        if event.data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        self.take(event.data)
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), Error> {
        self.take(body)?;
        if self.pieces == 0 {
            return Err(Error::Incomplete { reason: "the reply holds no choices".to_owned() });
        }
        self.done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn tokens(&self) -> u64 {
        self.pieces
    }

    fn finish(mut self) -> Result<Reply, Error> {
        if self.finish.is_none() && !self.done {
            return Err(Error::Incomplete {
                reason: "the stream ended without a finish_reason and without [DONE]".to_owned(),
            });
        }
        self.reply.stop = match self.finish.as_deref() {
            _ if !self.refusal.is_empty() => Stop::Refused { message: self.refusal },
            Some("length") => Stop::Length,
            Some("content_filter") => Stop::Filtered,
            _ if !self.reply.tool_calls.is_empty() => Stop::ToolCalls,
            _ => Stop::Finished,
        };
        if self.reply.usage == Usage::default() {
            self.reply.usage = written(&self.reply);
        }
        Ok(self.reply)
    }
}

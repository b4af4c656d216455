//! Parses requests: everything that a client sends is used, ignored on purpose, or refused by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use slipform_types::{
    Contract, ContractOptions, Conversation, OptionsPatch, RETRIES_MAX, Sampling, Tool, ToolChoice,
};

use super::body::{Body, ExtraOptions, FormatBody, FunctionBody, NamedSchema, ToolBody};
use super::messages::Messages;
use super::schemas::{self, ContractTerms, SchemaText};
use crate::error::ApiError;

/// The most choices of one request. Each is a run of its own.
const CHOICES_MAX: u32 = 8;

/// The longest name of a tool, as in OpenAI's API.
const TOOL_NAME_CHARACTERS_MAX: usize = 64;

/// The longest model name, which is stored with the summary of the request.
const MODEL_CHARACTERS_MAX: usize = 256;

/// The most bytes of `tool_choice`, which names one tool.
const TOOL_CHOICE_BYTES_MAX: usize = 64 * 1024;

/// The most bytes of an agent's parameters, and of members that are passed on as they are.
const PARAMETERS_BYTES_MAX: usize = 1024 * 1024;

/// The schema of `json_object`.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// A checked request.
#[derive(Debug, Clone)]
pub(crate) struct ChatRequest {
    /// The model as the client names it.
    pub(crate) model: String,
    /// The instructions that open the conversation.
    pub(crate) system: Option<String>,
    /// The text of the last message of the user.
    pub(crate) input: String,
    pub(crate) conversation: Arc<Conversation>,
    /// The contract of the answer; `None` for text.
    pub(crate) contract: Option<Arc<Contract>>,
    pub(crate) choices: u32,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) options: OptionsPatch,
    /// The tiers to try when the answers do not meet their contract.
    pub(crate) escalation: Vec<String>,
    pub(crate) tier: Option<String>,
    pub(crate) timeout: Option<Duration>,
    /// Further parameters of an agent.
    pub(crate) parameters: Map<String, Value>,
    /// The session that an agent continues.
    pub(crate) session_id: Option<String>,
    /// Whether the client sent tools of its own.
    pub(crate) has_tools: bool,
}

impl ChatRequest {
    /// Parses the body of a request, unless schemas have to be compiled for that: then returns `None`.
    ///
    /// # Errors
    /// Names the member that is invalid or not supported.
    pub(crate) fn parse_prepared(bytes: &[u8]) -> Result<Option<ChatRequest>, ApiError> {
        let body = Body::read(bytes)?;
        if body.schemas().all(schemas::is_prepared) { ChatRequest::check(body).map(Some) } else { Ok(None) }
    }

    /// Parses the body of a request.
    ///
    /// # Errors
    /// Names the member that is invalid or not supported.
    pub(crate) fn parse(bytes: &[u8]) -> Result<ChatRequest, ApiError> {
        ChatRequest::check(Body::read(bytes)?)
    }

    fn check(body: Body<'_>) -> Result<ChatRequest, ApiError> {
        if let Some(name) = &body.refused {
            return Err(ApiError::unsupported(name));
        }
        let missing = |name: &str| ApiError::invalid(name.to_owned(), format!("`{name}` is missing"));
        let model = body.model.ok_or_else(|| missing("model"))?;
        if model.chars().count() > MODEL_CHARACTERS_MAX {
            let message = format!("`model` has more than {MODEL_CHARACTERS_MAX} characters");
            return Err(ApiError::invalid("model".to_owned(), message));
        }
        let extra = body.slipform.unwrap_or_default();
        let options = extra.patch()?;
        let parameters = extra.parameters()?;
        let resolved = options.resolve(&ContractOptions::default());
        let messages = Messages::read(body.messages.ok_or_else(|| missing("messages"))?)?;
        let mut tools = tools(body.tools)?;
        let tool_choice = tool_choice(body.tool_choice, &mut tools)?;
        let contract = body.response_format.map(|format| contract(format, &resolved)).transpose()?.flatten();
        let choices = body.n.unwrap_or(1);
        if !(1..=CHOICES_MAX).contains(&choices) {
            return Err(ApiError::invalid("n".to_owned(), format!("`n` must be from 1 to {CHOICES_MAX}")));
        }
        let max_tokens = body.max_completion_tokens.or(body.max_tokens);
        if max_tokens == Some(0) {
            return Err(ApiError::invalid("max_tokens".to_owned(), "`max_tokens` must be at least 1"));
        }
        let timeout = extra.timeout_seconds.map(timeout).transpose()?;
        let sampling = Sampling {
            temperature: number("temperature", body.temperature, 0.0..=2.0)?,
            top_p: number("top_p", body.top_p, 0.0..=1.0)?,
            frequency_penalty: number("frequency_penalty", body.frequency_penalty, -2.0..=2.0)?,
            presence_penalty: number("presence_penalty", body.presence_penalty, -2.0..=2.0)?,
            // Backends take seeds that are not negative; any number is as good as another.
            seed: body.seed.map(i64::unsigned_abs),
            stop: body.stop,
            reasoning_effort: body.reasoning_effort.map(String::into_boxed_str),
            further: Some(further(body.further)?).filter(|members| !members.is_empty()).map(Arc::new),
        };
        Ok(ChatRequest {
            model,
            system: messages.system,
            input: messages.input,
            has_tools: !tools.is_empty(),
            conversation: Arc::new(Conversation {
                messages: messages.list,
                client_tools: tools,
                tool_choice,
                parallel_tool_calls: body.parallel_tool_calls.unwrap_or(true),
                is_streamed: body.stream.unwrap_or(false),
                sampling,
                options: resolved,
            }),
            contract,
            choices,
            max_tokens,
            stream: body.stream.unwrap_or(false),
            include_usage: body.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
            options,
            escalation: extra.escalation.unwrap_or_default().0,
            tier: extra.tier,
            timeout,
            parameters,
            session_id: body.session_id,
        })
    }

    /// Lets the tokens of replies be counted while they are written, so that a cancelled request is billed too.
    pub(crate) fn count_while_written(&mut self) {
        Arc::make_mut(&mut self.conversation).is_streamed = true;
    }

    /// Returns whether a part of the answer can be sent before its end: a text, or JSON whose form a grammar guarantees.
    pub(crate) fn may_be_live(&self) -> bool {
        let is_checked_later = self.contract.is_some() && self.conversation.options.reject_placeholders;
        self.stream && self.choices == 1 && !self.conversation.must_call() && !is_checked_later
    }
}

impl<'a> Body<'a> {
    /// Returns the texts of the schemas that have to be compiled.
    fn schemas(&self) -> impl Iterator<Item = &'a str> {
        let functions = self.tools.iter().filter_map(|tool| given(tool.function.as_ref()?.parameters));
        let format = self.response_format.as_ref();
        let named = format.and_then(|format| format.json_schema.as_ref()?.schema).map(RawValue::get);
        functions.chain(named).chain(format.and_then(|format| given(format.schema)))
    }
}

/// Returns the members that are passed on as they are.
fn further(members: BTreeMap<String, &RawValue>) -> Result<BTreeMap<String, Value>, ApiError> {
    let read = |(name, text): (String, &RawValue)| any_value(&name, text).map(|value| (name, value));
    members.into_iter().map(read).collect()
}

/// Reads a member of any form that is not large.
fn any_value(name: &str, text: &RawValue) -> Result<Value, ApiError> {
    if text.get().len() > PARAMETERS_BYTES_MAX {
        let message = format!("`{name}` has more than {PARAMETERS_BYTES_MAX} bytes");
        return Err(ApiError::invalid(name.to_owned(), message));
    }
    let invalid = |error| ApiError::invalid(name.to_owned(), format!("`{name}`: {error}"));
    serde_json::from_str(text.get()).map_err(invalid)
}

impl ExtraOptions<'_> {
    /// Returns the parameters of an agent.
    fn parameters(&self) -> Result<Map<String, Value>, ApiError> {
        const NAME: &str = "slipform.parameters";
        match self.parameters.map(|text| any_value(NAME, text)).transpose()? {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(members)) => Ok(members),
            Some(_) => Err(ApiError::invalid(NAME.to_owned(), format!("`{NAME}` must be an object"))),
        }
    }

    fn patch(&self) -> Result<OptionsPatch, ApiError> {
        if self.max_retries.is_some_and(|retries| retries > RETRIES_MAX) {
            let message = format!("`slipform.max_retries` must be from 0 to {RETRIES_MAX}");
            return Err(ApiError::invalid("slipform.max_retries".to_owned(), message));
        }
        Ok(OptionsPatch {
            max_retries: self.max_retries,
            extract_json: self.extract_json,
            strict_json_only: self.strict_json_only,
            validation_mode: self.mode,
            strategy: self.strategy,
            correction: self.correction,
            schema_form: self.schema_form,
            reject_placeholders: self.reject_placeholders,
        })
    }
}

fn timeout(seconds: f64) -> Result<Duration, ApiError> {
    let checked = Some(seconds).filter(|seconds| *seconds > 0.0);
    checked.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| {
        let message = "`slipform.timeout_seconds` must be a number of seconds above 0";
        ApiError::invalid("slipform.timeout_seconds".to_owned(), message)
    })
}

fn number(
    name: &str,
    value: Option<f64>,
    range: std::ops::RangeInclusive<f64>,
) -> Result<Option<f64>, ApiError> {
    match value {
        Some(value) if !range.contains(&value) => {
            let message = format!("`{name}` must be from {} to {}", range.start(), range.end());
            Err(ApiError::invalid(name.to_owned(), message))
        }
        value => Ok(value),
    }
}

fn tools(bodies: Vec<ToolBody<'_>>) -> Result<Vec<Tool>, ApiError> {
    let mut tools: Vec<Tool> = Vec::with_capacity(bodies.len());
    for (index, body) in bodies.into_iter().enumerate() {
        let kind = body.kind.as_deref().unwrap_or("function");
        let (Some(function), "function") = (body.function, kind) else {
            let message = format!("tools of type `{kind}` are not supported; send functions");
            let error = ApiError::invalid(format!("tools[{index}].type"), message);
            return Err(ApiError { code: "unsupported_parameter", ..error });
        };
        let tool = tool(index, function)?;
        if tools.iter().any(|other| other.name == tool.name) {
            let message = format!("`tools` has the name `{}` twice", tool.name);
            return Err(ApiError::invalid(format!("tools[{index}].function.name"), message));
        }
        tools.push(tool);
    }
    Ok(tools)
}

fn tool(index: usize, function: FunctionBody<'_>) -> Result<Tool, ApiError> {
    let FunctionBody { name, description, parameters, strict } = function;
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if name.is_empty() || name.len() > TOOL_NAME_CHARACTERS_MAX || !name.chars().all(is_plain) {
        let message = format!(
            "the name of a tool has 1 to {TOOL_NAME_CHARACTERS_MAX} letters, digits, `_` and `-`; `{name}` has not"
        );
        return Err(ApiError::invalid(format!("tools[{index}].function.name"), message));
    }
    let parameters = match given(parameters) {
        Some(text) => {
            let param = format!("tools[{index}].function.parameters");
            let title = format!("the parameters of tool `{name}`");
            let schema = SchemaText { text, param: &param, title: &title };
            of_objects(Value::clone(&*schemas::source(schema)?)).ok_or_else(|| {
                schema.error("only objects can be arguments; the schema must have the type `object`")
            })?
        }
        None => schemas::no_parameters(),
    };
    let (description, strict) = (description.unwrap_or_default(), strict.unwrap_or(false));
    Ok(Tool { name, description, parameters, strict })
}

/// Returns the parameters of a tool so that only objects satisfy them, as clients expect of arguments; `None` if no object does.
fn of_objects(mut parameters: Value) -> Option<Value> {
    let target =
        parameters["$ref"].as_str().and_then(|reference| parameters.pointer(reference.strip_prefix('#')?));
    if target.is_some_and(|target| target["type"] == "object") {
        return Some(parameters);
    }
    let Value::Object(keywords) = &mut parameters else {
        return (parameters == Value::Bool(true)).then(schemas::no_parameters);
    };
    let allows_objects = match keywords.get("type") {
        None => {
            // Older drafts ignore the neighbours of a reference.
            if let Some(reference) = keywords.shift_remove("$ref") {
                let all = keywords.entry("allOf").or_insert_with(|| json!([]));
                all.as_array_mut()?.insert(0, json!({"$ref": reference}));
            }
            true
        }
        Some(Value::Array(types)) => types.iter().any(|name| name == "object"),
        Some(name) => name == "object",
    };
    keywords.insert("type".to_owned(), Value::from("object"));
    allows_objects.then_some(parameters)
}

/// Returns the text of a member that is neither missing nor null.
fn given(member: Option<&RawValue>) -> Option<&str> {
    member.map(RawValue::get).filter(|text| *text != "null")
}

/// Reads which tools the model may or must call, and leaves out the tools that it may not call.
fn tool_choice(choice: Option<&RawValue>, tools: &mut Vec<Tool>) -> Result<ToolChoice, ApiError> {
    let refused = |message: String| ApiError::invalid("tool_choice".to_owned(), message);
    let text = choice.map_or("null", RawValue::get);
    if text.len() > TOOL_CHOICE_BYTES_MAX {
        return Err(refused(format!("`tool_choice` has more than {TOOL_CHOICE_BYTES_MAX} bytes")));
    }
    let choice: Value =
        serde_json::from_str(text).map_err(|error| refused(format!("`tool_choice`: {error}")))?;
    let choice = match choice {
        Value::Null => return Ok(ToolChoice::Auto),
        Value::String(name) => match name.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" | "any" => ToolChoice::Required,
            other => {
                let message = "must be `auto`, `none`, `required` or a function";
                return Err(refused(format!("`tool_choice` {message}, not `{other}`")));
            }
        },
        choice if choice["type"] == "allowed_tools" => allowed_tools(&choice["allowed_tools"], tools)?,
        choice => match choice["function"]["name"].as_str() {
            Some(name) => ToolChoice::Named(name.to_owned()),
            None => {
                let message = "must name a function as {\"type\": \"function\", \"function\": {\"name\": …}}";
                return Err(refused(format!("`tool_choice` {message}")));
            }
        },
    };
    match &choice {
        ToolChoice::Named(name) if !tools.iter().any(|tool| tool.name == *name) => {
            Err(refused(format!("`tool_choice` names the tool `{name}`, which is not in `tools`")))
        }
        ToolChoice::Required if tools.is_empty() => {
            Err(refused("`tool_choice` is `required`, and `tools` is empty".to_owned()))
        }
        _ => Ok(choice),
    }
}

/// Keeps the tools that a client allows for this request.
fn allowed_tools(allowed: &Value, tools: &mut Vec<Tool>) -> Result<ToolChoice, ApiError> {
    let refused = |message: String| ApiError::invalid("tool_choice".to_owned(), message);
    let list = allowed["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = list.iter().map(|tool| tool["function"]["name"].as_str().unwrap_or_default());
    let names: Vec<&str> = names.collect();
    if let Some(unknown) = names.iter().find(|name| !tools.iter().any(|tool| tool.name == **name)) {
        return Err(refused(format!("`tool_choice` allows the tool `{unknown}`, which is not in `tools`")));
    }
    let choice = match allowed["mode"].as_str() {
        Some("auto") => ToolChoice::Auto,
        Some("required") => ToolChoice::Required,
        _ => return Err(refused("`tool_choice.allowed_tools.mode` must be `auto` or `required`".to_owned())),
    };
    tools.retain(|tool| names.contains(&tool.name.as_str()));
    Ok(choice)
}

fn contract(format: FormatBody<'_>, options: &ContractOptions) -> Result<Option<Arc<Contract>>, ApiError> {
    const PARAM: &str = "response_format";
    let mut terms = ContractTerms { name: None, description: None, options: options.clone() };
    let (text, param) = match (format.kind.as_str(), format.json_schema) {
        ("text", _) => return Ok(None),
        // Some servers take the schema of an object here.
        ("json_object", _) => (given(format.schema).unwrap_or(ANY_OBJECT), "response_format.schema"),
        ("json_schema", Some(NamedSchema { name, description, schema: Some(schema) })) => {
            terms = ContractTerms { name, description, ..terms };
            (schema.get(), "response_format.json_schema.schema")
        }
        ("json_schema", _) => {
            let message = "`response_format.json_schema.schema` is missing";
            return Err(ApiError::invalid(format!("{PARAM}.json_schema.schema"), message));
        }
        (kind, _) => {
            let message =
                format!("`{PARAM}.type` must be `text`, `json_object` or `json_schema`, not `{kind}`");
            return Err(ApiError::invalid(format!("{PARAM}.type"), message));
        }
    };
    schemas::contract(SchemaText { text, param, title: "invalid schema" }, terms).map(Some)
}

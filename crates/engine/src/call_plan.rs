//! Plans the next model call and builds its request.

mod actions;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use slipform_schema::{Dialect, Lowered, lower, narrow, universal};
use slipform_types::{
    BackendInfo, BackendKind, Blueprint, Conversation, Format, Message, Protocol, Request, Role,
    StructuredOutput, Support, Tool, ToolCall, ToolChoice,
};

use crate::cite;
use crate::contract::{CompiledContract, SubmitTool};
use crate::conversation::{ConversationWriter, PastRun, messages_as_actions};
use crate::orchestrator::CREATE_PLAN;
use crate::output_mode::{OutputMode, Route};
use crate::patch::Parts;
use crate::prompt::{self, Form, RetryReason};
use crate::reply::SUBMIT;
use crate::task::Task;
use crate::tool_loop::ToolLoop;

/// The plan of the next model call.
#[derive(Debug, Clone)]
pub(crate) struct CallPlan {
    pub(crate) mode: OutputMode,
    /// The protocol for tool calls.
    pub(crate) protocol: Protocol,
    pub(crate) form: Form,
    pub(crate) request_kind: RequestKind,
    /// The maximum number of output tokens. `None` uses the default of the backend.
    pub(crate) budget: Option<u32>,
    /// The maximum number of characters of the answer, for backends that enforce the schema.
    pub(crate) narrow: Option<usize>,
    /// Whether the call repeats one whose answer was rejected.
    pub(crate) is_retry: bool,
}

/// The inputs of a request, apart from its plan.
pub(crate) struct RequestContext<'a> {
    pub(crate) task: &'a Task,
    pub(crate) tools: &'a ToolLoop,
    pub(crate) past_runs: &'a [PastRun],
    pub(crate) backend: &'a BackendInfo,
}

/// A plan whose request is built once, on first use.
#[derive(Debug, Clone)]
pub(crate) struct PlannedCall {
    pub(crate) plan: CallPlan,
    prepared: OnceLock<Arc<PreparedRequest>>,
}

impl From<CallPlan> for PlannedCall {
    fn from(plan: CallPlan) -> PlannedCall {
        PlannedCall { plan, prepared: OnceLock::new() }
    }
}

impl PlannedCall {
    /// Has the request built again: it was made of a blueprint without the values of variables.
    pub(crate) fn forget_request(&mut self) {
        self.prepared = OnceLock::new();
    }

    pub(crate) fn prepared(&self, context: &RequestContext<'_>) -> Arc<PreparedRequest> {
        self.prepared.get_or_init(|| Arc::new(prepare(context, &self.plan))).clone()
    }
}

/// The kind of request.
#[derive(Debug, Clone)]
pub(crate) enum RequestKind {
    /// The input of the run.
    First,
    /// The whole document again.
    Full { retry_reason: RetryReason, errors: Vec<String>, previous: String },
    /// Only the invalid parts.
    Patch { retry_reason: RetryReason, errors: Vec<String>, parts: Box<Parts> },
    /// The errors, as the answer to a tool call.
    ToolResult { retry_reason: RetryReason, errors: Vec<String>, content: String, calls: Vec<ToolCall> },
    /// The calls of the client's tools again, each with what is wrong about it.
    ClientCalls { content: String, calls: Vec<ToolCall>, answers: Vec<String> },
    /// The call again, because it was truncated.
    CallAgain,
    /// A reminder to call the tool.
    Reminder { content: String },
    /// The answer again, for a run without a contract.
    Plain { reason: String },
}

impl CallPlan {
    pub(crate) fn parts(&self) -> Option<&Parts> {
        match &self.request_kind {
            RequestKind::Patch { parts, .. } => Some(parts),
            _ => None,
        }
    }

    /// Returns whether the request carries a response format or tools, which a backend may not support.
    pub(crate) fn needs_features(&self, has_callables: bool) -> bool {
        let offers_callables = self.protocol == Protocol::Tools && has_callables;
        self.mode.is_native() || self.mode == OutputMode::Tool || offers_callables
    }

    /// Returns the plan on another route.
    pub(crate) fn on(self, route: Route) -> CallPlan {
        CallPlan { mode: route.mode, protocol: route.protocol, ..self }
    }

    /// Describes the plan for the journal and the progress line.
    pub(crate) fn describe(&self) -> String {
        let mode = match self.mode {
            OutputMode::Plain => "plain",
            OutputMode::Prompt => "prompt",
            OutputMode::SystemPrompt => "system_prompt",
            OutputMode::Tool => "tool",
            OutputMode::JsonSchema => "native json_schema",
            OutputMode::JsonObject => "native json_object",
            OutputMode::Grammar => "native grammar",
            OutputMode::Universal => "universal",
        };
        let request_kind = match self.request_kind {
            RequestKind::First => "",
            RequestKind::Full { .. }
            | RequestKind::ToolResult { .. }
            | RequestKind::ClientCalls { .. }
            | RequestKind::Plain { .. }
            | RequestKind::CallAgain => ", correction",
            RequestKind::Patch { .. } => ", patch correction",
            RequestKind::Reminder { .. } => ", reminder",
        };
        let form = if self.mode == OutputMode::Plain {
            String::new()
        } else {
            format!(", {} form", self.form.name())
        };
        let actions = if self.protocol == Protocol::Actions { "actions, " } else { "" };
        format!("{actions}{mode}{form}{request_kind}")
    }
}

/// A request, with the keywords that the backend is not asked to enforce.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    pub(crate) request: Arc<Request>,
    pub(crate) unenforced: Vec<String>,
}

/// Builds the request of a plan.
fn prepare(context: &RequestContext<'_>, plan: &CallPlan) -> PreparedRequest {
    if plan.protocol == Protocol::Actions
        && let Some(envelope) = &context.tools.envelope
    {
        return actions::prepare(context, plan, envelope);
    }
    let blueprint = &*context.task.blueprint;
    let Some(contract) = &context.task.contract else { return prepare_plain(context, plan) };
    let whole = match (&contract.wrapped, plan.mode.wants_object()) {
        (Some(wrapped), true) => wrapped.shared_source(),
        _ => contract.schema.shared_source(),
    };
    let shown = plan.parts().map_or(whole, |parts| parts.schema.shared_source());
    // Small models copy examples, and the grammar already enforces the form.
    let is_shown = plan.parts().is_none() && plan.mode != OutputMode::Grammar;
    let example = contract.definition.example.as_ref().filter(|_| is_shown);
    let mut request = request(context, plan);
    let base = instructions(context, plan);
    if plan.mode == OutputMode::Prompt {
        request.system = base.map(Cow::into_owned);
    } else {
        request.system = Some(prompt::system(
            base.as_deref(),
            (prompt_mode(contract, plan.mode), &contract.tool.name),
            plan.form,
            shown,
            example,
        ));
    }
    request.messages = messages(context, plan, prompt_mode(contract, plan.mode), shown, example);
    request.tools = context.tools.callables.request_tools().collect();
    let restricted_schema = restricted_schema(context, plan, shown).map(Arc::new);
    let shown = restricted_schema.as_ref().unwrap_or(shown);
    let target = Target { name: contract.name(&blueprint.name), tool: &contract.tool, shown };
    let unenforced = constrain(&mut request, &target, context.backend, plan);
    set_tool_choice(&mut request, context, plan);
    PreparedRequest { request: Arc::new(request), unenforced }
}

/// Returns the instructions of the agent. In modes without tools they describe the tool whose arguments are the answer,
/// because the request has no other place for that.
fn instructions<'a>(context: &RequestContext<'a>, plan: &CallPlan) -> Option<Cow<'a, str>> {
    let base = context.task.blueprint.system_prompt.as_deref();
    let forced = context.task.conversation.as_deref().and_then(Conversation::forced_tool);
    match forced.filter(|tool| plan.mode != OutputMode::Tool && !tool.description.trim().is_empty()) {
        Some(tool) => {
            let mut text = base.unwrap_or_default().to_owned();
            prompt::add(&mut text, &prompt::arguments_of(&tool.name, &tool.description));
            Some(Cow::Owned(text))
        }
        None => base.map(Cow::Borrowed),
    }
}

/// Returns the mode that the prompt describes. If the contract is the schema that the server
/// forces, the result is not nested in `custom_fields`.
fn prompt_mode(contract: &CompiledContract, mode: OutputMode) -> OutputMode {
    if mode == OutputMode::Universal && contract.is_universal() { OutputMode::SystemPrompt } else { mode }
}

/// Returns a request with the fields that all modes share.
fn request(context: &RequestContext<'_>, plan: &CallPlan) -> Request {
    let contract = context.task.contract.as_ref();
    // Only command backends read the hint.
    let hint = contract.filter(|_| context.backend.kind == BackendKind::Command);
    let conversation = context.task.conversation.as_deref();
    Request {
        max_tokens: plan.budget,
        schema_hint: hint.map(|contract| Value::clone(&contract.definition.schema)),
        // The client of a free text gets as many tokens as the server itself allows.
        is_whole: conversation.is_some_and(|conversation| !conversation.is_streamed),
        has_no_budget: conversation.is_some() && contract.is_none() && plan.budget.is_none(),
        sampling: conversation.map_or(&context.task.overrides.sampling, |kept| &kept.sampling).clone(),
        ..Request::default()
    }
}

fn prepare_plain(context: &RequestContext<'_>, plan: &CallPlan) -> PreparedRequest {
    let first = Message::user(&context.task.input);
    let mut messages = conversation(context, plan, first);
    match &plan.request_kind {
        RequestKind::Plain { reason } => messages.push(Message::user(prompt::plain_retry(reason))),
        RequestKind::CallAgain => messages.push(Message::user(prompt::call_again())),
        RequestKind::ClientCalls { content, calls, answers } => {
            messages.extend(answered_calls(content, calls, answers));
        }
        _ => {}
    }
    messages.extend(reminder(context, plan));
    let mut system = context.task.blueprint.system_prompt.clone();
    if context.backend.structured_output == StructuredOutput::Universal {
        prompt::add(system.get_or_insert_default(), prompt::MESSAGE_ALONE);
    }
    let mut request = Request {
        system,
        messages,
        tools: context.tools.callables.request_tools().collect(),
        ..request(context, plan)
    };
    set_tool_choice(&mut request, context, plan);
    PreparedRequest { request: Arc::new(request), unenforced: Vec::new() }
}

/// Sets whether the model must call a tool, and which one.
fn set_tool_choice(request: &mut Request, context: &RequestContext<'_>, plan: &CallPlan) {
    if let Some(conversation) = &context.task.conversation {
        return set_client_choice(request, conversation, (plan, context.backend));
    }
    if context.tools.callables.is_empty() {
        return;
    }
    let is_last = context.tools.is_last();
    match plan.mode {
        OutputMode::Tool => {
            let can_force =
                !matches!(context.backend.capabilities.forced_tools, Support::Refused | Support::Ignored);
            let has_to_submit = is_last || matches!(plan.request_kind, RequestKind::Reminder { .. });
            request.tool_choice = if has_to_submit && can_force {
                ToolChoice::Named(SUBMIT.to_owned())
            } else {
                ToolChoice::Auto
            };
        }
        // Under a grammar, the model can only call tools that are offered.
        OutputMode::Grammar if is_last => request.tools.clear(),
        OutputMode::Grammar if must_call_first(context, plan) => request.tool_choice = ToolChoice::Required,
        _ if is_last => request.tool_choice = ToolChoice::None,
        _ => {}
    }
}

/// Sets whether the model must call a tool of the client, or submit its answer.
fn set_client_choice(
    request: &mut Request,
    conversation: &Conversation,
    (plan, backend): (&CallPlan, &BackendInfo),
) {
    if conversation.client_tools.is_empty() {
        return;
    }
    let submits = plan.mode == OutputMode::Tool;
    if conversation.offered_tools().is_empty() {
        // Earlier calls in the conversation need the definitions of their tools.
        let has_calls = conversation.messages.iter().any(|message| !message.tool_calls.is_empty());
        if !submits && has_calls && conversation.tool_choice == ToolChoice::None {
            request.tools.extend(conversation.client_tools.iter().cloned());
            request.tool_choice = ToolChoice::None;
        }
        return;
    }
    request.parallel_tool_calls = (!conversation.parallel_tool_calls).then_some(false);
    let can_force = !matches!(backend.capabilities.forced_tools, Support::Refused | Support::Ignored);
    let has_to_call = submits || conversation.must_call();
    request.tool_choice = if has_to_call && can_force { ToolChoice::Required } else { ToolChoice::Auto };
}

/// Returns whether the model must call a tool before it answers. Citations need paths that tools
/// have shown, and small models answer at once.
fn must_call_first(context: &RequestContext<'_>, plan: &CallPlan) -> bool {
    if context.task.conversation.as_ref().is_some_and(|conversation| conversation.must_call()) {
        return !context.tools.callables.is_empty();
    }
    plan.mode == OutputMode::Grammar
        && !context.task.blueprint.cites.is_empty()
        && context.tools.seen.is_empty()
        && !context.tools.is_last()
        && !context.tools.callables.is_empty()
}

/// Returns a schema for grammars that only allows known files where the result cites files.
fn restricted_schema(context: &RequestContext<'_>, plan: &CallPlan, shown: &Value) -> Option<Value> {
    if plan.mode != OutputMode::Grammar || plan.parts().is_some() {
        return None;
    }
    let Blueprint { cites, changes, .. } = &*context.task.blueprint;
    let exact = context.task.under_grammar.clone().or_else(|| {
        let own = context.task.contract.as_ref()?.own_response_type()?;
        universal::exact_schema(own.name(), &context.tools.criteria.list())
    });
    if exact.is_none() && cites.is_empty() && changes.is_empty() {
        return None;
    }
    let mut narrowed = exact.unwrap_or_else(|| shown.clone());
    cite::restrict_to_known_paths(&mut narrowed, shown, cites, &context.tools.seen);
    cite::restrict_to_changes(&mut narrowed, shown, changes, &context.tools.changes);
    Some(narrowed)
}

/// Returns the conversation, with the input of this run in its place.
fn conversation(context: &RequestContext<'_>, plan: &CallPlan, first: Message) -> Vec<Message> {
    if let Some(kept) = &context.task.conversation {
        return client_messages(kept, &context.task.input, &first, plan.protocol);
    }
    let RequestContext { tools, past_runs, backend, .. } = context;
    let writer = ConversationWriter { callables: &tools.callables, protocol: plan.protocol, backend };
    writer.write(past_runs, first, &tools.turns)
}

/// Returns the messages of a client's conversation, followed by the instructions after the input of the run.
fn client_messages(kept: &Conversation, input: &str, first: &Message, protocol: Protocol) -> Vec<Message> {
    let mut messages = match protocol {
        Protocol::Tools => kept.messages.clone(),
        Protocol::Actions => messages_as_actions(&kept.messages),
    };
    let text = first.content.as_str();
    let instructions = text.strip_prefix(input.trim_end()).unwrap_or(text).trim_start();
    if text == input || instructions.is_empty() {
        return messages;
    }
    let instructions = Message::user(instructions);
    match messages.last_mut() {
        Some(last) if last.role == Role::User => last.append(&instructions),
        _ => messages.push(instructions),
    }
    messages
}

/// Returns the reminder of how many steps are left, if one is due.
fn reminder(context: &RequestContext<'_>, plan: &CallPlan) -> Option<Message> {
    let reminder = context.tools.reminder().filter(|_| matches!(plan.request_kind, RequestKind::First))?;
    let how = match (plan.protocol, plan.mode) {
        (Protocol::Actions, _) => "with the action NORMAL_RESPONSE".to_owned(),
        (_, OutputMode::Tool) => format!("by calling {SUBMIT}"),
        _ => "as your answer".to_owned(),
    };
    Some(Message::user(prompt::steps_left(reminder, &how)))
}

/// Returns the messages of the request. Retries do not grow the conversation: a correction replaces
/// the earlier corrections of its step.
fn messages(
    context: &RequestContext<'_>,
    plan: &CallPlan,
    mode: OutputMode,
    shown: &Value,
    example: Option<&Value>,
) -> Vec<Message> {
    let input = &context.task.input;
    let tool = context.task.contract.as_ref().map_or(SUBMIT, |contract| &contract.tool.name);
    // A correction shows the schema itself.
    let corrects = matches!(plan.request_kind, RequestKind::Full { .. } | RequestKind::Patch { .. });
    let first = match plan.mode {
        OutputMode::Prompt if !corrects => Message::user(prompt::user(input, plan.form, shown, example)),
        _ => Message::user(input),
    };
    let mut list = conversation(context, plan, first);
    match &plan.request_kind {
        RequestKind::First | RequestKind::Plain { .. } => list.extend(reminder(context, plan)),
        RequestKind::CallAgain => list.push(Message::user(prompt::call_again())),
        RequestKind::ClientCalls { content, calls, answers } => {
            list.extend(answered_calls(content, calls, answers));
        }
        RequestKind::Full { retry_reason, errors, previous } => list.push(Message::user(match plan.mode {
            OutputMode::Tool => prompt::tool_retry(*retry_reason, errors, tool),
            _ => prompt::full_retry(*retry_reason, errors, previous, (mode, plan.form), shown),
        })),
        RequestKind::Patch { retry_reason, errors, parts } => {
            list.push(Message::user(prompt::patch_retry(
                *retry_reason,
                errors,
                parts,
                plan.form,
                (plan.mode, tool),
            )));
        }
        RequestKind::ToolResult { retry_reason, errors, content, calls } => {
            list.push(Message::assistant(content.clone(), calls.clone()));
            let answer = prompt::tool_retry(*retry_reason, errors, tool);
            list.extend(calls.iter().map(|call| Message::tool(&call.id, answer.clone())));
        }
        RequestKind::Reminder { content } => {
            if !content.trim().is_empty() {
                list.push(Message::assistant(content.clone(), Vec::new()));
            }
            list.push(Message::user(prompt::reminder(tool)));
        }
    }
    list
}

/// Returns a reply with calls, and the answer to each of them.
fn answered_calls<'a>(
    content: &str,
    calls: &'a [ToolCall],
    answers: &'a [String],
) -> impl Iterator<Item = Message> + use<'a> {
    let answers = calls.iter().zip(answers).map(|(call, answer)| Message::tool(&call.id, answer));
    [Message::assistant(content, calls.to_vec())].into_iter().chain(answers)
}

/// The schema to enforce, with its name and tool.
struct Target<'a> {
    name: String,
    tool: &'a SubmitTool,
    shown: &'a Arc<Value>,
}

/// Asks the backend to enforce the schema, if the mode supports it. Returns the keywords that it
/// does not enforce.
fn constrain(
    request: &mut Request,
    target: &Target<'_>,
    backend: &BackendInfo,
    plan: &CallPlan,
) -> Vec<String> {
    if !plan.mode.is_native() && plan.mode != OutputMode::Tool {
        return Vec::new();
    }
    let dialect = backend.dialect.parse().unwrap_or(Dialect::Generic);
    let narrowed = plan.narrow.map(|characters| Arc::new(narrow(target.shown, characters)));
    let schema = narrowed.as_ref().unwrap_or(target.shown);
    let sent = SentSchema::of(schema, dialect, backend.kind);
    if plan.mode == OutputMode::Tool {
        return submit_tool(request, (target.tool, schema), sent, dialect, backend);
    }
    let SentSchema { schema, strict, lost } = sent;
    request.format = match plan.mode {
        OutputMode::JsonObject => Format::JsonObject { schema: Some(schema) },
        _ => Format::JsonSchema { name: target.name.clone(), schema, strict },
    };
    lost
}

/// A schema in the form that the backend accepts.
struct SentSchema {
    schema: Arc<Value>,
    /// Whether the backend enforces it.
    strict: bool,
    /// The keywords that the backend does not enforce.
    lost: Vec<String>,
}

impl SentSchema {
    fn of(schema: &Arc<Value>, dialect: Dialect, kind: BackendKind) -> SentSchema {
        // The embedded backend accepts any schema and reports the keywords that it cannot express. An unknown server gets
        // the schema unchanged.
        if kind == BackendKind::Embedded || dialect == Dialect::Generic {
            return SentSchema { schema: schema.clone(), strict: true, lost: Vec::new() };
        }
        let Lowered { schema, strict, lost, .. } = lower(schema, dialect);
        SentSchema { schema: Arc::new(schema), strict, lost }
    }
}

fn submit_tool(
    request: &mut Request,
    (tool, schema): (&SubmitTool, &Value),
    sent: SentSchema,
    dialect: Dialect,
    backend: &BackendInfo,
) -> Vec<String> {
    // Lowering the schema only helps if the backend enforces the result.
    let strict = sent.strict && dialect == Dialect::OpenAi;
    let enforces = strict || backend.capabilities.forced_tools == Support::Enforced;
    let (parameters, lost) =
        if enforces { (Value::clone(&sent.schema), sent.lost) } else { (schema.clone(), Vec::new()) };
    request.tools.push(Tool {
        name: tool.name.to_string(),
        description: tool.description.to_string(),
        parameters,
        strict,
    });
    request.tool_choice = match backend.capabilities.forced_tools {
        Support::Refused if *tool.name == *CREATE_PLAN => ToolChoice::Auto,
        _ => ToolChoice::Named(tool.name.to_string()),
    };
    lost
}

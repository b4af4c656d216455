//! What the next call asks for, and the request that comes of it.

mod actions;

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use slipform_schema::{Dialect, Lowered, lower, narrow, universal};
use slipform_types::{
    BackendInfo, BackendKind, Blueprint, Format, Message, Protocol, Request, StructuredOutput, Support, Tool,
    ToolCall, ToolChoice,
};

use crate::cite;
use crate::contract::Enforced;
use crate::conversation::{ConversationWriter, Past};
use crate::criteria;
use crate::judge::SUBMIT;
use crate::orchestrator::CREATE_PLAN;
use crate::output_mode::{OutputMode, Route};
use crate::patch::Parts;
use crate::prompt::{self, Form, Why};
use crate::state::Task;
use crate::tool_state::ToolState;

/// What the next call asks for.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) mode: OutputMode,
    /// How the model calls tools meanwhile.
    pub(crate) protocol: Protocol,
    pub(crate) form: Form,
    pub(crate) ask: Ask,
    /// The most tokens to write; the backend's default when none.
    pub(crate) budget: Option<u32>,
    /// The most characters the answer may have, for backends that enforce the schema they are sent.
    pub(crate) narrow: Option<usize>,
    /// Whether it repeats a call whose answer would not do.
    pub(crate) is_retry: bool,
}

/// All that a request is made of, beside its plan.
pub(crate) struct RequestContext<'a> {
    pub(crate) task: &'a Task,
    pub(crate) tools: &'a ToolState,
    pub(crate) past: &'a [Past],
    pub(crate) backend: &'a BackendInfo,
}

/// A plan whose request is made once, when it is first needed.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    prepared: OnceLock<Arc<Prepared>>,
}

impl From<Plan> for Planned {
    fn from(plan: Plan) -> Planned {
        Planned { plan, prepared: OnceLock::new() }
    }
}

impl Planned {
    /// Has the request built again: it was made of a blueprint without the values of variables.
    pub(crate) fn forget_request(&mut self) {
        self.prepared = OnceLock::new();
    }

    pub(crate) fn prepared(&self, context: &RequestContext<'_>) -> Arc<Prepared> {
        self.prepared.get_or_init(|| Arc::new(prepare(context, &self.plan))).clone()
    }
}

/// The kind of message.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    /// The question.
    First,
    /// The whole document again.
    Full { why: Why, errors: Vec<String>, previous: String },
    /// Only the parts that are wrong.
    Patch { why: Why, errors: Vec<String>, parts: Box<Parts> },
    /// The errors as the answer to a tool call.
    ToolResult { why: Why, errors: Vec<String>, content: String, calls: Vec<ToolCall> },
    /// A word to a model whose call was cut off.
    CallAgain,
    /// A word to a model that did not call the tool.
    Reminder { content: String },
    /// A word to a model that did not answer a plain question.
    Plain { reason: String },
}

impl Plan {
    pub(crate) fn parts(&self) -> Option<&Parts> {
        match &self.ask {
            Ask::Patch { parts, .. } => Some(parts),
            _ => None,
        }
    }

    /// The same on another route.
    pub(crate) fn on(self, route: Route) -> Plan {
        Plan { mode: route.mode, protocol: route.protocol, ..self }
    }

    /// The plan in a few words, for the journal and the progress line.
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
        let ask = match self.ask {
            Ask::First => "",
            Ask::Full { .. } | Ask::ToolResult { .. } | Ask::Plain { .. } | Ask::CallAgain => ", correction",
            Ask::Patch { .. } => ", patch correction",
            Ask::Reminder { .. } => ", reminder",
        };
        let form = if self.mode == OutputMode::Plain {
            String::new()
        } else {
            format!(", {} form", self.form.name())
        };
        let actions = if self.protocol == Protocol::Actions { "actions, " } else { "" };
        format!("{actions}{mode}{form}{ask}")
    }
}

/// A request, and the keywords that the backend was not asked to enforce.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) request: Arc<Request>,
    pub(crate) unenforced: Vec<String>,
}

/// The request for a plan.
fn prepare(context: &RequestContext<'_>, plan: &Plan) -> Prepared {
    if plan.protocol == Protocol::Actions
        && let Some(envelope) = &context.tools.envelope
    {
        return actions::prepare(context, plan, envelope);
    }
    let blueprint = &*context.task.blueprint;
    let Some(enforced) = &context.task.contract else { return plain(context, plan) };
    let whole = match (&enforced.wrapped, plan.mode.wants_object()) {
        (Some(wrapped), true) => wrapped.source(),
        _ => enforced.schema.source(),
    };
    let shown = plan.parts().map_or(whole, |parts| parts.schema.source());
    // A model that needs a grammar copies what it is shown, and has the form without that.
    let is_shown = plan.parts().is_none() && plan.mode != OutputMode::Grammar;
    let example = enforced.contract.example.as_ref().filter(|_| is_shown);
    let mut request = request(context, plan);
    if plan.mode == OutputMode::Prompt {
        request.system = blueprint.system_prompt.clone();
    } else {
        let base = blueprint.system_prompt.as_deref();
        request.system = Some(prompt::system(
            base,
            (worded(enforced, plan.mode), enforced.tool),
            plan.form,
            shown,
            example,
        ));
    }
    request.messages = messages(context, plan, worded(enforced, plan.mode), shown, example);
    request.tools = context.tools.callables.shown().collect();
    let offered = offered(context, plan, shown);
    let shown = offered.as_ref().unwrap_or(shown);
    let target = Target { name: enforced.name(&blueprint.name), tool: enforced.tool, shown };
    let unenforced = constrain(&mut request, &target, context.backend, plan);
    choose(&mut request, context, plan);
    Prepared { request: Arc::new(request), unenforced }
}

/// How a result is asked for in words. Where the contract is the one schema that the server forces, nothing has to
/// travel inside it.
fn worded(enforced: &Enforced, mode: OutputMode) -> OutputMode {
    if mode == OutputMode::Universal && enforced.is_universal() { OutputMode::SystemPrompt } else { mode }
}

/// What every request has.
fn request(context: &RequestContext<'_>, plan: &Plan) -> Request {
    let contract = context.task.contract.as_ref();
    // Only programs read it.
    let hint = contract.filter(|_| context.backend.kind == BackendKind::Command);
    Request {
        max_tokens: plan.budget,
        schema_hint: hint.map(|enforced| enforced.contract.schema.clone()),
        ..Request::default()
    }
}

fn plain(context: &RequestContext<'_>, plan: &Plan) -> Prepared {
    let first = Message::user(&context.task.input);
    let mut messages = written(context, plan, first);
    match &plan.ask {
        Ask::Plain { reason } => messages.push(Message::user(prompt::plain_retry(reason))),
        Ask::CallAgain => messages.push(Message::user(prompt::call_again())),
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
        tools: context.tools.callables.shown().collect(),
        ..request(context, plan)
    };
    choose(&mut request, context, plan);
    Prepared { request: Arc::new(request), unenforced: Vec::new() }
}

/// Whether the model has to call a tool, and which.
fn choose(request: &mut Request, context: &RequestContext<'_>, plan: &Plan) {
    if context.tools.callables.is_empty() {
        return;
    }
    let is_last = context.tools.is_last();
    match plan.mode {
        OutputMode::Tool => {
            let forces =
                !matches!(context.backend.capabilities.forced_tools, Support::Refused | Support::Ignored);
            let has_to_submit = is_last || matches!(plan.ask, Ask::Reminder { .. });
            request.tool_choice = match has_to_submit && forces {
                true => ToolChoice::Named(SUBMIT.to_owned()),
                false => ToolChoice::Auto,
            };
        }
        // Under a grammar what is not offered cannot be called.
        OutputMode::Grammar if is_last => request.tools.clear(),
        OutputMode::Grammar if has_to_look(context, plan) => request.tool_choice = ToolChoice::Required,
        _ if is_last => request.tool_choice = ToolChoice::None,
        _ => {}
    }
}

/// Whether the model has to look before it answers: whoever cites has to have seen something, and small models answer
/// at once.
fn has_to_look(context: &RequestContext<'_>, plan: &Plan) -> bool {
    plan.mode == OutputMode::Grammar
        && !context.task.blueprint.cites.is_empty()
        && context.tools.seen.is_empty()
        && !context.tools.is_last()
        && !context.tools.callables.is_empty()
}

/// The schema with only known files in the places that cite them, for a grammar: there nothing else can be written.
fn offered(context: &RequestContext<'_>, plan: &Plan, shown: &Value) -> Option<Value> {
    if plan.mode != OutputMode::Grammar || plan.parts().is_some() {
        return None;
    }
    let Blueprint { cites, changes, .. } = &*context.task.blueprint;
    let exact = context.task.under_grammar.clone().or_else(|| {
        let own = context.task.contract.as_ref()?.own_response()?;
        universal::exact_schema(
            own.name(),
            &criteria::criteria(&context.tools.decided, &context.tools.undecided),
        )
    });
    if exact.is_none() && cites.is_empty() && changes.is_empty() {
        return None;
    }
    let mut narrowed = exact.unwrap_or_else(|| shown.clone());
    cite::offer(&mut narrowed, shown, cites, &context.tools.seen);
    cite::offer(&mut narrowed, shown, changes, &context.tools.written);
    Some(narrowed)
}

/// The conversation so far, with the question in its place.
fn written(context: &RequestContext<'_>, plan: &Plan, first: Message) -> Vec<Message> {
    let RequestContext { tools, past, backend, .. } = context;
    let writer = ConversationWriter { callables: &tools.callables, protocol: plan.protocol, backend };
    writer.write(past, first, &tools.turns)
}

/// A word about how much is left, to whoever goes on.
fn reminder(context: &RequestContext<'_>, plan: &Plan) -> Option<Message> {
    let reminder = context.tools.reminder().filter(|_| matches!(plan.ask, Ask::First))?;
    let how = match (plan.protocol, plan.mode) {
        (Protocol::Actions, _) => "with the action NORMAL_RESPONSE".to_owned(),
        (_, OutputMode::Tool) => format!("by calling {SUBMIT}"),
        _ => "as your answer".to_owned(),
    };
    Some(Message::user(prompt::steps_left(reminder, &how)))
}

/// The conversation. Retries do not make it grow: a correction stands for all that went before it in its step.
fn messages(
    context: &RequestContext<'_>,
    plan: &Plan,
    mode: OutputMode,
    shown: &Value,
    example: Option<&Value>,
) -> Vec<Message> {
    let input = &context.task.input;
    let tool = context.task.contract.as_ref().map_or(SUBMIT, |contract| contract.tool);
    // A correction shows the schema itself.
    let corrects = matches!(plan.ask, Ask::Full { .. } | Ask::Patch { .. });
    let first = match plan.mode {
        OutputMode::Prompt if !corrects => Message::user(prompt::user(input, plan.form, shown, example)),
        _ => Message::user(input),
    };
    let mut list = written(context, plan, first);
    match &plan.ask {
        Ask::First | Ask::Plain { .. } => list.extend(reminder(context, plan)),
        Ask::CallAgain => list.push(Message::user(prompt::call_again())),
        Ask::Full { why, errors, previous } => list.push(Message::user(match plan.mode {
            OutputMode::Tool => prompt::tool_retry(*why, errors, tool),
            _ => prompt::full_retry(*why, errors, previous, (mode, plan.form), shown),
        })),
        Ask::Patch { why, errors, parts } => {
            list.push(Message::user(prompt::patch_retry(*why, errors, parts, plan.form, (plan.mode, tool))));
        }
        Ask::ToolResult { why, errors, content, calls } => {
            list.push(Message::assistant(content.clone(), calls.clone()));
            let answer = prompt::tool_retry(*why, errors, tool);
            list.extend(calls.iter().map(|call| Message::tool(&call.id, answer.clone())));
        }
        Ask::Reminder { content } => {
            if !content.trim().is_empty() {
                list.push(Message::assistant(content.clone(), Vec::new()));
            }
            list.push(Message::user(prompt::reminder(tool)));
        }
    }
    list
}

/// What a backend is asked to keep to.
struct Target<'a> {
    name: String,
    tool: &'static str,
    shown: &'a Value,
}

/// Asks the backend itself to keep to the schema, where the plan says so, and tells what it cannot keep.
fn constrain(request: &mut Request, target: &Target<'_>, backend: &BackendInfo, plan: &Plan) -> Vec<String> {
    if !plan.mode.is_native() && plan.mode != OutputMode::Tool {
        return Vec::new();
    }
    let dialect = backend.dialect.parse().unwrap_or(Dialect::Generic);
    let narrowed = plan.narrow.map(|characters| narrow(target.shown, characters));
    let schema = narrowed.as_ref().unwrap_or(target.shown);
    let lowered = match backend.kind {
        // It takes any schema, and says itself what it could not express.
        BackendKind::Embedded => {
            Lowered { schema: schema.clone(), strict: true, lost: Vec::new(), needs_restore: false }
        }
        _ => lower(schema, dialect),
    };
    match plan.mode {
        OutputMode::Tool => return submit_tool(request, (target.tool, schema), lowered, dialect, backend),
        OutputMode::JsonObject => request.format = Format::JsonObject { schema: Some(lowered.schema) },
        _ => {
            let name = target.name.clone();
            request.format = Format::JsonSchema { name, schema: lowered.schema, strict: lowered.strict };
        }
    }
    lowered.lost
}

fn submit_tool(
    request: &mut Request,
    (name, schema): (&'static str, &Value),
    lowered: Lowered,
    dialect: Dialect,
    backend: &BackendInfo,
) -> Vec<String> {
    // A schema is only worth lowering where the backend enforces what is left of it.
    let strict = lowered.strict && dialect == Dialect::OpenAi;
    let enforces = strict || backend.capabilities.forced_tools == Support::Enforced;
    let (parameters, lost) =
        if enforces { (lowered.schema, lowered.lost) } else { (schema.clone(), Vec::new()) };
    request.tools.push(Tool {
        name: name.to_owned(),
        description: match name {
            CREATE_PLAN => "Hand in the execution plan. You MUST call this tool!",
            _ => "Submit the final result. You MUST call this tool!",
        }
        .to_owned(),
        parameters,
        strict,
    });
    request.tool_choice = match backend.capabilities.forced_tools {
        Support::Refused if name == CREATE_PLAN => ToolChoice::Auto,
        _ => ToolChoice::Named(name.to_owned()),
    };
    lost
}

//! What the next call asks for, and the request that comes of it.

mod actions;

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use slipform_schema::{Dialect, Lowered, lower, narrow, universal};
use slipform_types::{
    BackendInfo, BackendKind, Blueprint, Format, Message, Protocol, Request, StructuredOutput, Support, Tool,
    ToolCall, ToolChoice,
};

use crate::acting::Acting;
use crate::check;
use crate::cite;
use crate::contract::Enforced;
use crate::conversation::{Past, Writer};
use crate::judge::SUBMIT;
use crate::orchestra::CREATE_PLAN;
use crate::patch::Parts;
use crate::prompt::{self, Form, Why};
use crate::state::Task;
use crate::way::{Route, Way};

/// What the next call asks for.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) way: Way,
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
pub(crate) struct Scene<'a> {
    pub(crate) task: &'a Task,
    pub(crate) acting: &'a Acting,
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
    pub(crate) fn prepared(&self, scene: &Scene<'_>) -> Arc<Prepared> {
        self.prepared.get_or_init(|| Arc::new(prepare(scene, &self.plan))).clone()
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
        Plan { way: route.way, protocol: route.protocol, ..self }
    }

    /// The plan in a few words, for the journal and the progress line.
    pub(crate) fn describe(&self) -> String {
        let way = match self.way {
            Way::Plain => "plain",
            Way::Prompt => "prompt",
            Way::SystemPrompt => "system_prompt",
            Way::Tool => "tool",
            Way::JsonSchema => "native json_schema",
            Way::JsonObject => "native json_object",
            Way::Grammar => "native grammar",
            Way::Universal => "universal",
        };
        let ask = match self.ask {
            Ask::First => "",
            Ask::Full { .. } | Ask::ToolResult { .. } | Ask::Plain { .. } | Ask::CallAgain => ", correction",
            Ask::Patch { .. } => ", patch correction",
            Ask::Reminder { .. } => ", reminder",
        };
        let form =
            if self.way == Way::Plain { String::new() } else { format!(", {} form", self.form.name()) };
        let actions = if self.protocol == Protocol::Actions { "actions, " } else { "" };
        format!("{actions}{way}{form}{ask}")
    }
}

/// A request, and the keywords that the backend was not asked to enforce.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) request: Arc<Request>,
    pub(crate) unenforced: Vec<String>,
}

/// The request for a plan.
fn prepare(scene: &Scene<'_>, plan: &Plan) -> Prepared {
    if plan.protocol == Protocol::Actions
        && let Some(envelope) = &scene.acting.envelope
    {
        return actions::prepare(scene, plan, envelope);
    }
    let blueprint = &*scene.task.blueprint;
    let Some(enforced) = &scene.task.contract else { return plain(scene, plan) };
    let whole = match (&enforced.wrapped, plan.way.wants_object()) {
        (Some(wrapped), true) => wrapped.source(),
        _ => enforced.schema.source(),
    };
    let shown = plan.parts().map_or(whole, |parts| parts.schema.source());
    // A model that needs a grammar copies what it is shown, and has the form without that.
    let is_shown = plan.parts().is_none() && plan.way != Way::Grammar;
    let example = enforced.contract.example.as_ref().filter(|_| is_shown);
    let mut request = request(scene, plan);
    if plan.way == Way::Prompt {
        request.system = blueprint.system_prompt.clone();
    } else {
        let base = blueprint.system_prompt.as_deref();
        request.system = Some(prompt::system(
            base,
            (worded(enforced, plan.way), enforced.tool),
            plan.form,
            shown,
            example,
        ));
    }
    request.messages = messages(scene, plan, worded(enforced, plan.way), shown, example);
    request.tools = scene.acting.callables.shown().collect();
    let offered = offered(scene, plan, shown);
    let shown = offered.as_ref().unwrap_or(shown);
    let target = Target { name: enforced.name(&blueprint.name), tool: enforced.tool, shown };
    let unenforced = constrain(&mut request, &target, scene.backend, plan);
    choose(&mut request, scene, plan);
    Prepared { request: Arc::new(request), unenforced }
}

/// How a result is asked for in words. Where the contract is the one schema that the server forces, nothing has to
/// travel inside it.
fn worded(enforced: &Enforced, way: Way) -> Way {
    if way == Way::Universal && enforced.is_universal() { Way::SystemPrompt } else { way }
}

/// What every request has.
fn request(scene: &Scene<'_>, plan: &Plan) -> Request {
    let contract = scene.task.contract.as_ref();
    // Only programs read it.
    let hint = contract.filter(|_| scene.backend.kind == BackendKind::Command);
    Request {
        max_tokens: plan.budget,
        schema_hint: hint.map(|enforced| enforced.contract.schema.clone()),
        ..Request::default()
    }
}

fn plain(scene: &Scene<'_>, plan: &Plan) -> Prepared {
    let first = Message::user(&scene.task.input);
    let mut messages = written(scene, plan, first);
    match &plan.ask {
        Ask::Plain { reason } => messages.push(Message::user(prompt::plain_retry(reason))),
        Ask::CallAgain => messages.push(Message::user(prompt::call_again())),
        _ => {}
    }
    messages.extend(reminder(scene, plan));
    let mut system = scene.task.blueprint.system_prompt.clone();
    if scene.backend.structured_output == StructuredOutput::Universal {
        prompt::add(system.get_or_insert_default(), prompt::MESSAGE_ALONE);
    }
    let mut request =
        Request { system, messages, tools: scene.acting.callables.shown().collect(), ..request(scene, plan) };
    choose(&mut request, scene, plan);
    Prepared { request: Arc::new(request), unenforced: Vec::new() }
}

/// Whether the model has to call a tool, and which.
fn choose(request: &mut Request, scene: &Scene<'_>, plan: &Plan) {
    if scene.acting.callables.is_empty() {
        return;
    }
    let is_last = scene.acting.is_last();
    match plan.way {
        Way::Tool => {
            let forces =
                !matches!(scene.backend.capabilities.forced_tools, Support::Refused | Support::Ignored);
            let has_to_submit = is_last || matches!(plan.ask, Ask::Reminder { .. });
            request.tool_choice = match has_to_submit && forces {
                true => ToolChoice::Named(SUBMIT.to_owned()),
                false => ToolChoice::Auto,
            };
        }
        // Under a grammar what is not offered cannot be called.
        Way::Grammar if is_last => request.tools.clear(),
        Way::Grammar if has_to_look(scene, plan) => request.tool_choice = ToolChoice::Required,
        _ if is_last => request.tool_choice = ToolChoice::None,
        _ => {}
    }
}

/// Whether the model has to look before it answers: whoever cites has to have seen something, and small models answer
/// at once.
fn has_to_look(scene: &Scene<'_>, plan: &Plan) -> bool {
    plan.way == Way::Grammar
        && !scene.task.blueprint.cites.is_empty()
        && scene.acting.seen.is_empty()
        && !scene.acting.is_last()
        && !scene.acting.callables.is_empty()
}

/// The schema with only known files in the places that cite them, for a grammar: there nothing else can be written.
fn offered(scene: &Scene<'_>, plan: &Plan, shown: &Value) -> Option<Value> {
    if plan.way != Way::Grammar || plan.parts().is_some() {
        return None;
    }
    let Blueprint { cites, changes, .. } = &*scene.task.blueprint;
    let exact = scene.task.under_grammar.clone().or_else(|| {
        let own = scene.task.contract.as_ref()?.own_response()?;
        universal::exactly(own.name(), &check::criteria(&scene.acting.decided, &scene.acting.undecided))
    });
    if exact.is_none() && cites.is_empty() && changes.is_empty() {
        return None;
    }
    let mut narrowed = exact.unwrap_or_else(|| shown.clone());
    cite::offer(&mut narrowed, shown, cites, &scene.acting.seen);
    cite::offer(&mut narrowed, shown, changes, &scene.acting.written);
    Some(narrowed)
}

/// The conversation so far, with the question in its place.
fn written(scene: &Scene<'_>, plan: &Plan, first: Message) -> Vec<Message> {
    let Scene { acting, past, backend, .. } = scene;
    let writer = Writer { callables: &acting.callables, protocol: plan.protocol, backend };
    writer.write(past, first, &acting.turns)
}

/// A word about how much is left, to whoever goes on.
fn reminder(scene: &Scene<'_>, plan: &Plan) -> Option<Message> {
    let reminder = scene.acting.reminder().filter(|_| matches!(plan.ask, Ask::First))?;
    let how = match (plan.protocol, plan.way) {
        (Protocol::Actions, _) => "with the action NORMAL_RESPONSE".to_owned(),
        (_, Way::Tool) => format!("by calling {SUBMIT}"),
        _ => "as your answer".to_owned(),
    };
    Some(Message::user(prompt::steps_left(reminder, &how)))
}

/// The conversation. Retries do not make it grow: a correction stands for all that went before it in its step.
fn messages(
    scene: &Scene<'_>,
    plan: &Plan,
    way: Way,
    shown: &Value,
    example: Option<&Value>,
) -> Vec<Message> {
    let input = &scene.task.input;
    let tool = scene.task.contract.as_ref().map_or(SUBMIT, |contract| contract.tool);
    // A correction shows the schema itself.
    let corrects = matches!(plan.ask, Ask::Full { .. } | Ask::Patch { .. });
    let first = match plan.way {
        Way::Prompt if !corrects => Message::user(prompt::user(input, plan.form, shown, example)),
        _ => Message::user(input),
    };
    let mut list = written(scene, plan, first);
    match &plan.ask {
        Ask::First | Ask::Plain { .. } => list.extend(reminder(scene, plan)),
        Ask::CallAgain => list.push(Message::user(prompt::call_again())),
        Ask::Full { why, errors, previous } => list.push(Message::user(match plan.way {
            Way::Tool => prompt::tool_retry(*why, errors, tool),
            _ => prompt::full_retry(*why, errors, previous, (way, plan.form), shown),
        })),
        Ask::Patch { why, errors, parts } => {
            list.push(Message::user(prompt::patch_retry(*why, errors, parts, plan.form, (plan.way, tool))));
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
    if !plan.way.is_native() && plan.way != Way::Tool {
        return Vec::new();
    }
    let dialect = backend.dialect.parse().unwrap_or(Dialect::Generic);
    let narrowed = plan.narrow.map(|characters| narrow(target.shown, characters));
    let schema = narrowed.as_ref().unwrap_or(target.shown);
    let lowered = match backend.kind {
        // It takes any schema, and says itself what it could not express.
        BackendKind::Embedded => {
            Lowered { schema: schema.clone(), strict: true, lost: Vec::new(), nulls: false }
        }
        _ => lower(schema, dialect),
    };
    match plan.way {
        Way::Tool => return submit_tool(request, (target.tool, schema), lowered, dialect, backend),
        Way::JsonObject => request.format = Format::JsonObject { schema: Some(lowered.schema) },
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

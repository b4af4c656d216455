//! What the next call asks for, and the request that comes of it.

use std::sync::{Arc, OnceLock};

use formwork_schema::{Dialect, Lowered, lower, narrow};
use formwork_types::{
    BackendInfo, BackendKind, Blueprint, Format, Message, Request, Support, Tool, ToolCall, ToolChoice,
};
use serde_json::Value;

use crate::contract::Enforced;
use crate::judge::SUBMIT;
use crate::patch::Parts;
use crate::prompt::{self, Form, Why};
use crate::state::Task;
use crate::way::Way;

/// What the next call asks for.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) way: Way,
    pub(crate) form: Form,
    pub(crate) ask: Ask,
    /// The most tokens to write; the backend's default when none.
    pub(crate) budget: Option<u32>,
    /// The most characters the answer may have, for backends that enforce the schema they are sent.
    pub(crate) narrow: Option<usize>,
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
    pub(crate) fn prepared(&self, task: &Task, backend: &BackendInfo) -> Arc<Prepared> {
        let prepare = || {
            let contract = task.contract.as_ref();
            Arc::new(prepare(&task.blueprint, &task.input, contract, backend, &self.plan))
        };
        self.prepared.get_or_init(prepare).clone()
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
            Ask::Full { .. } | Ask::ToolResult { .. } | Ask::Plain { .. } => ", correction",
            Ask::Patch { .. } => ", patch correction",
            Ask::Reminder { .. } => ", reminder",
        };
        let form =
            if self.way == Way::Plain { String::new() } else { format!(", {} form", self.form.name()) };
        format!("{way}{form}{ask}")
    }
}

/// A request, and the keywords that the backend was not asked to enforce.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) request: Arc<Request>,
    pub(crate) unenforced: Vec<String>,
}

/// The request for a plan.
fn prepare(
    blueprint: &Blueprint,
    input: &str,
    contract: Option<&Enforced>,
    backend: &BackendInfo,
    plan: &Plan,
) -> Prepared {
    let Some(enforced) = contract else { return plain(blueprint, input, plan) };
    let whole = match (&enforced.wrapped, plan.way.wants_object()) {
        (Some(wrapped), true) => wrapped.source(),
        _ => enforced.schema.source(),
    };
    let shown = plan.parts().map_or(whole, |parts| parts.schema.source());
    let example = enforced.contract.example.as_ref().filter(|_| plan.parts().is_none());
    let mut request = Request {
        max_tokens: plan.budget,
        // Only programs read it.
        schema_hint: (backend.kind == BackendKind::Command).then(|| enforced.contract.schema.clone()),
        ..Request::default()
    };
    if plan.way == Way::Prompt {
        request.system = blueprint.system_prompt.clone();
    } else {
        let base = blueprint.system_prompt.as_deref();
        request.system = Some(prompt::system(base, plan.way, plan.form, shown, example));
    }
    request.messages = messages(plan, input, shown, example);
    let unenforced = constrain(&mut request, enforced, &blueprint.name, backend, plan, shown);
    Prepared { request: Arc::new(request), unenforced }
}

fn plain(blueprint: &Blueprint, input: &str, plan: &Plan) -> Prepared {
    let mut messages = vec![Message::user(input)];
    if let Ask::Plain { reason } = &plan.ask {
        messages.push(Message::user(prompt::plain_retry(reason)));
    }
    let request = Request {
        system: blueprint.system_prompt.clone(),
        messages,
        max_tokens: plan.budget,
        ..Request::default()
    };
    Prepared { request: Arc::new(request), unenforced: Vec::new() }
}

/// The conversation. It never grows: a correction stands for all that went before it.
fn messages(plan: &Plan, input: &str, shown: &Value, example: Option<&Value>) -> Vec<Message> {
    let first = || match plan.way {
        Way::Prompt => Message::user(prompt::user(input, plan.form, shown, example)),
        _ => Message::user(input),
    };
    match &plan.ask {
        Ask::First | Ask::Plain { .. } => vec![first()],
        Ask::Full { why, errors, previous } => {
            let correction = match plan.way {
                Way::Tool => prompt::tool_retry(*why, errors),
                _ => prompt::full_retry(*why, errors, previous, (plan.way, plan.form), shown),
            };
            vec![Message::user(input), Message::user(correction)]
        }
        Ask::Patch { why, errors, parts } => {
            let correction = prompt::patch_retry(*why, errors, parts, plan.form, plan.way);
            vec![Message::user(input), Message::user(correction)]
        }
        Ask::ToolResult { why, errors, content, calls } => {
            let mut list = vec![first(), Message::assistant(content.clone(), calls.clone())];
            let answer = prompt::tool_retry(*why, errors);
            list.extend(calls.iter().map(|call| Message::tool(&call.id, answer.clone())));
            list
        }
        Ask::Reminder { content } if content.trim().is_empty() => {
            vec![first(), Message::user(prompt::reminder())]
        }
        Ask::Reminder { content } => {
            let said = Message::assistant(content.clone(), Vec::new());
            vec![first(), said, Message::user(prompt::reminder())]
        }
    }
}

/// Asks the backend itself to keep to the schema, where the plan says so, and tells what it cannot keep.
fn constrain(
    request: &mut Request,
    enforced: &Enforced,
    agent: &str,
    backend: &BackendInfo,
    plan: &Plan,
    shown: &Value,
) -> Vec<String> {
    if !plan.way.is_native() && plan.way != Way::Tool {
        return Vec::new();
    }
    let dialect = backend.dialect.parse().unwrap_or(Dialect::Generic);
    let narrowed = plan.narrow.map(|characters| narrow(shown, characters));
    let schema = narrowed.as_ref().unwrap_or(shown);
    let lowered = match backend.kind {
        // It takes any schema, and says itself what it could not express.
        BackendKind::Embedded => {
            Lowered { schema: schema.clone(), strict: true, lost: Vec::new(), nulls: false }
        }
        _ => lower(schema, dialect),
    };
    match plan.way {
        Way::Tool => return submit_tool(request, schema, lowered, dialect, backend),
        Way::JsonObject => request.format = Format::JsonObject { schema: Some(lowered.schema) },
        _ => {
            let name = enforced.name(agent);
            request.format = Format::JsonSchema { name, schema: lowered.schema, strict: lowered.strict };
        }
    }
    lowered.lost
}

fn submit_tool(
    request: &mut Request,
    schema: &Value,
    lowered: Lowered,
    dialect: Dialect,
    backend: &BackendInfo,
) -> Vec<String> {
    // A schema is only worth lowering where the backend enforces what is left of it.
    let strict = lowered.strict && dialect == Dialect::OpenAi;
    let enforces = strict || backend.capabilities.forced_tools == Support::Enforced;
    let (parameters, lost) =
        if enforces { (lowered.schema, lowered.lost) } else { (schema.clone(), Vec::new()) };
    request.tools = vec![Tool {
        name: SUBMIT.to_owned(),
        description: "Submit the final result. You MUST call this tool!".to_owned(),
        parameters,
        strict,
    }];
    request.tool_choice = ToolChoice::Named(SUBMIT.to_owned());
    lost
}

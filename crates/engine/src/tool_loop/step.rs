//! The steps of the tool loop: pending and answered calls.

use serde_json::Value;
use slipform_types::{ChildEnd, Opening, Protocol, Reply, SessionId, WRITING_TOOLS};

use crate::action::{Action, Child, ToolRun};
use crate::call_plan::CallPlan;
use crate::delegation::START;

/// A finished step.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    /// The text of the model beside the calls.
    pub(crate) assistant_text: String,
    /// The protocol of the calls.
    pub(crate) protocol: Protocol,
    pub(crate) calls: Vec<AnsweredCall>,
    /// Whether the blueprint requested the calls, not the model.
    pub(crate) is_opening: bool,
}

impl Turn {
    /// Shows the arguments of opening calls with their placeholders filled in. The journal does not hold the values.
    pub(super) fn fill_opening(&mut self, opening: &[Opening]) {
        for (index, filled) in opening.iter().enumerate().filter(|_| self.is_opening) {
            let id = opening_id(index);
            if let Some(call) = self.calls.iter_mut().find(|call| call.id == id)
                && !filled.arguments.is_null()
            {
                call.arguments = filled.arguments.to_string();
            }
        }
    }
}

/// A call and its answer.
#[derive(Debug, Clone)]
pub(crate) struct AnsweredCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// The agent and its session, if the call was a delegation.
    pub(crate) child: Option<(String, Option<SessionId>)>,
    pub(crate) answer: String,
    /// Whether the answer is the result of an agent.
    pub(crate) is_result: bool,
}

/// A step whose calls are not all answered.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// The plan of the model call that began the step.
    pub(crate) plan: CallPlan,
    pub(crate) assistant_text: String,
    pub(crate) calls: Vec<PendingCall>,
    /// The result submitted beside the calls. It is judged after they are answered.
    pub(crate) submission: Option<Reply>,
    /// Whether the blueprint requested the calls, not the model.
    pub(crate) is_opening: bool,
}

/// A call of the current step, answered or not.
#[derive(Debug, Clone)]
pub(crate) struct PendingCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The arguments as the model wrote them.
    pub(crate) arguments: String,
    pub(crate) work: PendingWork,
    pub(crate) answer: Option<String>,
    /// Whether the answer is the result of an agent.
    pub(crate) is_result: bool,
}

/// The work that a call requires.
#[derive(Debug, Clone)]
pub(crate) enum PendingWork {
    /// Call a tool with these arguments.
    Tool(Value),
    /// Start or resume an agent.
    Child(Box<Child>),
    /// The agent is running.
    Working { agent_name: String, session_id: SessionId, is_awaited: bool },
    /// None: the call is invalid, and its answer says why.
    Nothing,
}

impl Step {
    /// Returns the calls that may be made now, in the order of the reply. A call that writes waits for all calls before it,
    /// and all calls after it wait for it: what they read depends on it. Other calls and agents work at the same time.
    fn ready(&self) -> impl Iterator<Item = &PendingCall> {
        let writes = |call: &PendingCall| {
            matches!(call.work, PendingWork::Tool(_)) && WRITING_TOOLS.contains(&call.name.as_str())
        };
        let mut is_first = true;
        let mut has_written = false;
        self.calls.iter().filter(|call| call.answer.is_none()).take_while(move |call| {
            let is_ready = !has_written && (is_first || !writes(call));
            has_written |= writes(call);
            is_first = false;
            is_ready
        })
    }

    /// Returns the action that the calls require: start an agent, call tools, or wait for agents.
    pub(crate) fn action(&self) -> Action {
        if let Some(child) = self.child() {
            return Action::Delegate(Box::new(child.clone()));
        }
        let tools = self.tools();
        if tools.is_empty() { Action::Park } else { Action::Tools(tools) }
    }

    /// Returns the tools to call next.
    fn tools(&self) -> Vec<ToolRun> {
        self.ready()
            .filter_map(|call| match &call.work {
                PendingWork::Tool(arguments) => Some(ToolRun {
                    call_id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: arguments.clone(),
                }),
                _ => None,
            })
            .collect()
    }

    /// Returns the agent to start next.
    fn child(&self) -> Option<&Child> {
        self.ready().find_map(|call| match &call.work {
            PendingWork::Child(child) => Some(&**child),
            _ => None,
        })
    }

    /// Takes the arguments of opening calls from a blueprint whose placeholders are filled in. A step that was folded
    /// from the journal has the placeholders of variables instead of their values.
    pub(crate) fn fill_opening(&mut self, opening: &[Opening]) {
        for (index, filled) in opening.iter().enumerate().filter(|_| self.is_opening) {
            let id = opening_id(index);
            let Some(call) = self.calls.iter_mut().find(|call| call.id == id) else { continue };
            if filled.arguments.is_null() {
                continue;
            }
            call.arguments = filled.arguments.to_string();
            if let PendingWork::Tool(arguments) = &mut call.work
                && call.answer.is_none()
            {
                *arguments = filled.arguments.clone();
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.calls.iter().all(|call| call.answer.is_some())
    }

    /// Returns the unanswered call with this id.
    pub(crate) fn unanswered_call(&mut self, id: &str) -> Option<&mut PendingCall> {
        self.calls.iter_mut().find(|call| call.id == id && call.answer.is_none())
    }

    /// Returns the unanswered call that waits for this child.
    pub(crate) fn unanswered_child_call(&mut self, end: &ChildEnd) -> Option<&mut PendingCall> {
        self.calls.iter_mut().find(|call| {
            let is_it = matches!(&call.work, PendingWork::Working { session_id, is_awaited: true, .. }
                if *session_id == end.child_session_id);
            is_it && call.answer.is_none()
        })
    }

    pub(crate) fn turn(&self) -> Turn {
        let calls = self.calls.iter().map(|call| AnsweredCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            child: match &call.work {
                PendingWork::Working { agent_name, session_id, .. } => {
                    Some((agent_name.clone(), Some(session_id.clone())))
                }
                PendingWork::Child(child) => Some((child.agent_name.clone(), None)),
                // A refused delegation is answered under the name of the requested agent.
                PendingWork::Nothing if call.name == START => {
                    let arguments: Option<Value> = serde_json::from_str(&call.arguments).ok();
                    let name = arguments.and_then(|given| Some(given["agent_name"].as_str()?.to_owned()));
                    name.map(|name| (name, None))
                }
                _ => None,
            },
            answer: call.answer.clone().unwrap_or_default(),
            is_result: call.is_result,
        });
        Turn {
            assistant_text: self.assistant_text.clone(),
            protocol: self.plan.protocol,
            calls: calls.collect(),
            is_opening: self.is_opening,
        }
    }
}

/// Returns the id of an opening call of a blueprint.
pub(crate) fn opening_id(index: usize) -> String {
    format!("opening-{}", index + 1)
}

/// Returns the answer to a call as the model reads it.
pub(crate) fn answer_text(output: &Value, error: Option<&str>) -> String {
    match (error, output) {
        (Some(error), _) => format!("Error: {error}"),
        (None, Value::String(text)) => text.clone(),
        (None, output) => output.to_string(),
    }
}

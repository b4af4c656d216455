//! The agent's loop: what the model called, what came of it, and how much it may still do.

use std::sync::Arc;

use serde_json::Value;
use slipform_types::{ChildEnd, Limits, Opening, Protocol, Reply, SessionId, ToolCall, WRITING_TOOLS};

use crate::action::{Child, ToolRun};
use crate::callable::{Callables, Kind};
use crate::contract::Enforced;
use crate::conversation::Past;
use crate::criteria::Decided;
use crate::delegation::{Known, START, child};
use crate::plan::Plan;

/// Turns of the loop where the blueprint says nothing.
const STEPS_DEFAULT: u32 = 20;

/// The most turns that a blueprint may ask for: every one is a model call, and the conversation grows with each.
const STEPS_MAX: u32 = 1_000;

/// Tool calls where the blueprint says nothing.
const TOOL_CALLS_DEFAULT: u32 = 50;

/// The most tool calls that a blueprint may ask for.
const TOOL_CALLS_MAX: u32 = 10_000;

/// The most calls that one reply may make. A reply with more is a model that repeats itself; the rest is not run.
pub(crate) const CALLS_A_REPLY_MAX: usize = 32;

/// Loops shorter than this need no reminder half mode.
const STEPS_WITH_HALF: u32 = 4;

/// How far the loop may go.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds {
    pub(crate) steps: u32,
    pub(crate) tool_calls: u32,
}

/// The most turns of a model that is held by a grammar: small ones do not get further by looking longer, and their
/// context is short.
const STEPS_UNDER_GRAMMAR: u32 = 4;

impl Bounds {
    pub(crate) fn of(limits: &Limits, is_under_grammar: bool) -> Bounds {
        let most = if is_under_grammar { STEPS_UNDER_GRAMMAR } else { STEPS_MAX };
        Bounds {
            steps: limits.max_steps.unwrap_or(STEPS_DEFAULT).min(most),
            tool_calls: limits.max_tool_calls.unwrap_or(TOOL_CALLS_DEFAULT).min(TOOL_CALLS_MAX),
        }
    }
}

/// A word about how much is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reminder {
    /// Half of the steps are used.
    Half { used: u32, of: u32 },
    /// No tool is called any more.
    Last,
}

/// The loop of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolState {
    pub(crate) callables: Arc<Callables>,
    /// The action protocol's envelope, for those who speak it.
    pub(crate) envelope: Option<Arc<Enforced>>,
    pub(crate) bounds: Bounds,
    /// Steps that are over.
    pub(crate) turns: Vec<Turn>,
    /// The step under mode: the model has called, and not everything is answered.
    pub(crate) step: Option<Box<Step>>,
    pub(crate) tool_calls: u32,
    /// Files and folders that are known to be in the project, the newest first.
    pub(crate) seen: Vec<String>,
    /// Files that tools have written to, the newest first.
    pub(crate) written: Vec<String>,
    /// Criteria that were decided.
    pub(crate) decided: Vec<Decided>,
    /// Criteria that nobody could decide by looking.
    pub(crate) undecided: Vec<String>,
}

/// A step that is over.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    /// What the model said with it.
    pub(crate) said: String,
    /// How it called.
    pub(crate) protocol: Protocol,
    pub(crate) calls: Vec<Answered>,
    /// Whether the blueprint asked for it, and not the model.
    pub(crate) is_opening: bool,
}

/// A call and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// The agent that answered, where another agent was called.
    pub(crate) child: Option<(String, Option<SessionId>)>,
    pub(crate) answer: String,
}

/// A step under mode.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// How the model was asked.
    pub(crate) plan: Plan,
    pub(crate) said: String,
    pub(crate) calls: Vec<Pending>,
    /// The result that was submitted beside the calls, which are run first.
    pub(crate) submission: Option<Reply>,
    /// Whether the blueprint asks for it, and not the model.
    pub(crate) is_opening: bool,
}

/// A call that is to be answered.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The arguments as the model wrote them.
    pub(crate) arguments: String,
    pub(crate) work: PendingStep,
    pub(crate) answer: Option<String>,
}

/// What a call takes.
#[derive(Debug, Clone)]
pub(crate) enum PendingStep {
    /// A tool.
    Tool(Value),
    /// An agent, before it has started.
    Child(Box<Child>),
    /// An agent that works.
    Working { agent_name: String, session_id: SessionId, is_awaited: bool },
    /// Nothing: the call is wrong, and its answer says so.
    Nothing,
}

impl Step {
    /// Returns the calls that may be made now, in the order of the reply. A call that writes waits for all calls before it,
    /// and all calls after it wait for it: what they read depends on it. Other calls and agents work at the same time.
    fn ready(&self) -> impl Iterator<Item = &Pending> {
        let writes = |call: &Pending| {
            matches!(call.work, PendingStep::Tool(_)) && WRITING_TOOLS.contains(&call.name.as_str())
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

    /// Returns the tools to call next.
    pub(crate) fn tools(&self) -> Vec<ToolRun> {
        self.ready()
            .filter_map(|call| match &call.work {
                PendingStep::Tool(arguments) => Some(ToolRun {
                    call_id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: arguments.clone(),
                }),
                _ => None,
            })
            .collect()
    }

    /// Returns the agent to start next.
    pub(crate) fn child(&self) -> Option<&Child> {
        self.ready().find_map(|call| match &call.work {
            PendingStep::Child(child) => Some(&**child),
            _ => None,
        })
    }

    /// Takes the arguments of opening calls from a blueprint whose placeholders are filled in. A step that was folded
    /// from the journal has the placeholders of variables instead of their values.
    pub(crate) fn fill_opening(&mut self, opening: &[Opening]) {
        for (call, filled) in self.calls.iter_mut().zip(opening).filter(|_| self.is_opening) {
            if let PendingStep::Tool(arguments) = &mut call.work
                && call.answer.is_none()
                && !filled.arguments.is_null()
            {
                *arguments = filled.arguments.clone();
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.calls.iter().all(|call| call.answer.is_some())
    }

    /// The call of this id, if it still waits for its answer.
    pub(crate) fn waiting(&mut self, id: &str) -> Option<&mut Pending> {
        self.calls.iter_mut().find(|call| call.id == id && call.answer.is_none())
    }

    /// The call that waits for this child.
    pub(crate) fn waiting_for(&mut self, end: &ChildEnd) -> Option<&mut Pending> {
        self.calls.iter_mut().find(|call| {
            let is_it = matches!(&call.work, PendingStep::Working { session_id, is_awaited: true, .. }
                if *session_id == end.child_session_id);
            is_it && call.answer.is_none()
        })
    }

    pub(crate) fn turn(&self) -> Turn {
        let calls = self.calls.iter().map(|call| Answered {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            child: match &call.work {
                PendingStep::Working { agent_name, session_id, .. } => {
                    Some((agent_name.clone(), Some(session_id.clone())))
                }
                PendingStep::Child(child) => Some((child.agent_name.clone(), None)),
                // Whoever calls an agent that cannot be had is answered in that agent's name.
                PendingStep::Nothing if call.name == START => {
                    let arguments: Option<Value> = serde_json::from_str(&call.arguments).ok();
                    let name = arguments.and_then(|given| Some(given["agent_name"].as_str()?.to_owned()));
                    name.map(|name| (name, None))
                }
                _ => None,
            },
            answer: call.answer.clone().unwrap_or_default(),
        });
        Turn {
            said: self.said.clone(),
            protocol: self.plan.protocol,
            calls: calls.collect(),
            is_opening: self.is_opening,
        }
    }
}

impl ToolState {
    /// Whether there is anything to call, or a protocol for calling.
    pub(crate) fn is_on(&self) -> bool {
        !self.callables.is_empty() || self.envelope.is_some()
    }

    /// Steps that are over.
    pub(crate) fn steps(&self) -> u32 {
        u32::try_from(self.turns.iter().filter(|turn| !turn.is_opening).count()).unwrap_or(u32::MAX)
    }

    /// Whether the next call is the last that the model gets: no tool is called after it.
    pub(crate) fn is_last(&self) -> bool {
        !self.callables.is_empty()
            && (self.steps() + 1 >= self.bounds.steps || self.tool_calls >= self.bounds.tool_calls)
    }

    /// Tool calls that may still be made.
    pub(crate) fn calls_left(&self) -> usize {
        self.bounds.tool_calls.saturating_sub(self.tool_calls) as usize
    }

    /// Which limit a reply that goes on with this many calls is over, in words.
    pub(crate) fn over_limit(&self, calls: usize) -> Option<String> {
        let Bounds { steps, tool_calls } = self.bounds;
        if self.steps() + 1 >= steps {
            return Some(format!("the agent wanted to go on after {steps} steps (limits.max_steps)"));
        }
        (calls > self.calls_left())
            .then(|| format!("the agent wanted more than {tool_calls} tool calls (limits.max_tool_calls)"))
    }

    /// What the model is told about how much is left.
    pub(crate) fn reminder(&self) -> Option<Reminder> {
        if self.callables.is_empty() {
            return None;
        }
        let (used, of) = (self.steps(), self.bounds.steps);
        if self.is_last() {
            // A loop of one step never had another.
            return (used > 0).then_some(Reminder::Last);
        }
        (of >= STEPS_WITH_HALF && used == of / 2).then_some(Reminder::Half { used, of })
    }

    /// The calls of a reply, each with an id that no other call of the session has: some servers number the calls of
    /// each reply anew, and others refuse what is not unique. The same call twice is one.
    pub(crate) fn named_apart(&self, calls: &[ToolCall], past: &[Past]) -> Vec<ToolCall> {
        let mut kept: Vec<(String, ToolCall)> = Vec::new();
        for call in calls {
            let is_same = |(id, other): &(String, ToolCall)| {
                *id == call.id && other.name == call.name && other.arguments == call.arguments
            };
            if !call.id.is_empty() && kept.iter().any(is_same) {
                continue;
            }
            let given = call.id.clone();
            let turns = past.iter().flat_map(|run| &run.turns).chain(&self.turns);
            let earlier = turns.flat_map(|turn| &turn.calls);
            let is_taken = |id: &str| {
                id.is_empty()
                    || earlier.clone().any(|answered| answered.id == id)
                    || kept.iter().any(|(_, other)| other.id == id)
            };
            let base = if given.is_empty() { "call".to_owned() } else { given.clone() };
            let step = self.steps() + 1;
            let mut id = given.clone();
            let mut number = 1;
            while is_taken(&id) {
                id = format!("{base}-{step}-{number}");
                number += 1;
            }
            kept.push((given, ToolCall { id, ..call.clone() }));
        }
        kept.into_iter().map(|(_, call)| call).collect()
    }

    /// A call, checked: what it takes, or what is wrong with it.
    pub(crate) fn check(
        &self,
        call: ToolCall,
        known: &[Known],
        protocol: Protocol,
        has_contract: bool,
    ) -> (Pending, Option<String>) {
        let callable = self.callables.find(&call.name);
        let work = match callable {
            None => Err(self.callables.unknown(&call.name, protocol == Protocol::Tools, has_contract)),
            Some(callable) => callable.read(&call.arguments).and_then(|input| match callable.kind {
                Kind::Tool => Ok(PendingStep::Tool(input)),
                kind => child(&call.id, kind, &input, known).map(|child| PendingStep::Child(Box::new(child))),
            }),
        };
        let name = callable.map_or(call.name, |callable| callable.name.clone());
        let (work, wrong) = match work {
            Ok(work) => (work, None),
            Err(message) => (PendingStep::Nothing, Some(message)),
        };
        (Pending { id: call.id, name, arguments: call.arguments, work, answer: None }, wrong)
    }
}

/// The answer to a call as the model reads it.
pub(crate) fn answer(output: &Value, error: Option<&str>) -> String {
    match (error, output) {
        (Some(error), _) => format!("Error: {error}"),
        (None, Value::String(text)) => text.clone(),
        (None, output) => output.to_string(),
    }
}

//! The state of the tool loop: pending and answered calls, and the limits of the loop.

use std::sync::Arc;

use serde_json::Value;
use slipform_types::{ChildEnd, Limits, Opening, Protocol, Reply, SessionId, ToolCall, WRITING_TOOLS};

use crate::action::{Action, Child, Execution, ToolRun};
use crate::call_plan::CallPlan;
use crate::callable::{CallableKind, Callables};
use crate::contract::CompiledContract;
use crate::conversation::PastRun;
use crate::criteria::DecidedCriterion;
use crate::delegation::{KnownChild, START, child};

/// Steps per run, if the blueprint sets no limit.
const STEPS_DEFAULT: u32 = 20;

/// The largest step limit of a blueprint. Every step is a model call, and the conversation grows
/// with each one.
const STEPS_MAX: u32 = 1_000;

/// Tool calls per run, if the blueprint sets no limit.
const TOOL_CALLS_DEFAULT: u32 = 50;

/// The largest tool call limit of a blueprint.
const TOOL_CALLS_MAX: u32 = 10_000;

/// The maximum number of calls per reply. A model that makes more is usually repeating itself; the
/// rest is not run.
pub(crate) const CALLS_A_REPLY_MAX: usize = 32;

/// Loops shorter than this get no reminder at half of their steps.
const STEPS_WITH_HALF: u32 = 4;

/// The limits of the loop.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LoopLimits {
    pub(crate) steps: u32,
    pub(crate) tool_calls: u32,
}

/// The maximum number of steps under a grammar. Small models do not improve with more steps, and
/// their context is short.
const STEPS_UNDER_GRAMMAR: u32 = 4;

impl LoopLimits {
    pub(crate) fn of(limits: &Limits, is_under_grammar: bool) -> LoopLimits {
        let most = if is_under_grammar { STEPS_UNDER_GRAMMAR } else { STEPS_MAX };
        LoopLimits {
            steps: limits.max_steps.unwrap_or(STEPS_DEFAULT).min(most),
            tool_calls: limits.max_tool_calls.unwrap_or(TOOL_CALLS_DEFAULT).min(TOOL_CALLS_MAX),
        }
    }
}

/// A reminder of how many steps are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reminder {
    /// Half of the steps are used.
    Half { used: u32, of: u32 },
    /// The next call is the last one; tools are no longer available.
    Last,
}

/// The tool loop of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolState {
    pub(crate) callables: Arc<Callables>,
    /// The envelope of the action protocol. `None` for an agent that has nothing to call and does not
    /// use the protocol.
    pub(crate) envelope: Option<Arc<CompiledContract>>,
    pub(crate) limits: LoopLimits,
    /// The program of a procedural agent, until it has ended. It is journaled like a tool call.
    pub(crate) program: Option<Box<Execution>>,
    /// Finished steps.
    pub(crate) turns: Vec<Turn>,
    /// The current step, while some of its calls are unanswered.
    pub(crate) step: Option<Box<Step>>,
    pub(crate) tool_calls: u32,
    /// Files and folders known to exist in the project, newest first.
    pub(crate) seen: Vec<String>,
    /// Files that tools wrote to, newest first.
    pub(crate) written: Vec<String>,
    /// Criteria that checks decided.
    pub(crate) decided: Vec<DecidedCriterion>,
    /// Criteria that checks could not decide.
    pub(crate) undecided: Vec<String>,
}

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

/// A call and its answer.
#[derive(Debug, Clone)]
pub(crate) struct AnsweredCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// The agent and its session, if the call was a delegation.
    pub(crate) child: Option<(String, Option<SessionId>)>,
    pub(crate) answer: String,
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
        for (call, filled) in self.calls.iter_mut().zip(opening).filter(|_| self.is_opening) {
            if let PendingWork::Tool(arguments) = &mut call.work
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
        });
        Turn {
            assistant_text: self.assistant_text.clone(),
            protocol: self.plan.protocol,
            calls: calls.collect(),
            is_opening: self.is_opening,
        }
    }
}

impl ToolState {
    /// Returns whether the agent has something to call or uses the action protocol.
    pub(crate) fn is_active(&self) -> bool {
        !self.callables.is_empty() || self.envelope.is_some()
    }

    /// Returns the number of finished steps, without the opening calls.
    pub(crate) fn steps(&self) -> u32 {
        u32::try_from(self.turns.iter().filter(|turn| !turn.is_opening).count()).unwrap_or(u32::MAX)
    }

    /// Returns whether the next model call is the last one, after which no tool is called.
    pub(crate) fn is_last(&self) -> bool {
        !self.callables.is_empty()
            && (self.steps() + 1 >= self.limits.steps || self.tool_calls >= self.limits.tool_calls)
    }

    /// Returns the number of tool calls that are left.
    pub(crate) fn calls_left(&self) -> usize {
        self.limits.tool_calls.saturating_sub(self.tool_calls) as usize
    }

    /// Returns the error message if this many further calls exceed a limit.
    pub(crate) fn exceeded_limit(&self, calls: usize) -> Option<String> {
        let LoopLimits { steps, tool_calls } = self.limits;
        if self.steps() + 1 >= steps {
            return Some(format!("the agent wanted to go on after {steps} steps (limits.max_steps)"));
        }
        (calls > self.calls_left())
            .then(|| format!("the agent wanted more than {tool_calls} tool calls (limits.max_tool_calls)"))
    }

    /// Returns the reminder for the next model call, if one is due.
    pub(crate) fn reminder(&self) -> Option<Reminder> {
        if self.callables.is_empty() {
            return None;
        }
        let (used, of) = (self.steps(), self.limits.steps);
        if self.is_last() {
            // A loop with a single step needs no reminder.
            return (used > 0).then_some(Reminder::Last);
        }
        (of >= STEPS_WITH_HALF && used == of / 2).then_some(Reminder::Half { used, of })
    }

    /// Returns the calls of a reply with ids that are unique in the session. Some servers restart
    /// numbering with every reply, and others reject duplicate ids. A call repeated with the same id,
    /// name and arguments is dropped.
    pub(crate) fn with_unique_ids(&self, calls: &[ToolCall], past_runs: &[PastRun]) -> Vec<ToolCall> {
        let mut kept: Vec<(String, ToolCall)> = Vec::new();
        for call in calls {
            let is_same = |(id, other): &(String, ToolCall)| {
                *id == call.id && other.name == call.name && other.arguments == call.arguments
            };
            if !call.id.is_empty() && kept.iter().any(is_same) {
                continue;
            }
            let given = call.id.clone();
            let turns = past_runs.iter().flat_map(|run| &run.turns).chain(&self.turns);
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

    /// Checks a call. Returns it with its work, or with the message of what is wrong.
    pub(crate) fn check_call(
        &self,
        call: ToolCall,
        known: &[KnownChild],
        protocol: Protocol,
        has_contract: bool,
    ) -> (PendingCall, Option<String>) {
        let callable = self.callables.find(&call.name);
        let work = match callable {
            None => Err(self.callables.unknown(&call.name, protocol == Protocol::Tools, has_contract)),
            Some(callable) => callable.read(&call.arguments).and_then(|input| match callable.kind {
                CallableKind::Tool => Ok(PendingWork::Tool(input)),
                kind => child(&call.id, kind, &input, known).map(|child| PendingWork::Child(Box::new(child))),
            }),
        };
        let name = callable.map_or(call.name, |callable| callable.name.clone());
        let (work, wrong) = match work {
            Ok(work) => (work, None),
            Err(message) => (PendingWork::Nothing, Some(message)),
        };
        (PendingCall { id: call.id, name, arguments: call.arguments, work, answer: None }, wrong)
    }
}

/// Returns the answer to a call as the model reads it.
pub(crate) fn answer_text(output: &Value, error: Option<&str>) -> String {
    match (error, output) {
        (Some(error), _) => format!("Error: {error}"),
        (None, Value::String(text)) => text.clone(),
        (None, output) => output.to_string(),
    }
}

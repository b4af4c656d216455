//! The tool loop: the tools and agents that a model may call, their calls and answers, and the facts
//! that they showed.

mod step;

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_types::{
    CHECKING_TOOL, ChildEnd, EventBody, ExecutionMode, KEY_REMOVED, Limits, Opening, Protocol, REDACTED,
    Reply, SessionId, StopReason, ToolCall,
};

use crate::action::Execution;
use crate::call_plan::CallPlan;
use crate::callable::{CallableKind, Callables};
use crate::changes::FileChanges;
use crate::cite;
use crate::contract::CompiledContract;
use crate::conversation::PastRun;
use crate::criteria::KnownCriteria;
use crate::delegation::{KnownChild, child};
use crate::envelope;
use crate::error::Error;
use crate::history::History;
use crate::usage::reply_text;

pub(crate) use step::{AnsweredCall, Step, Turn, opening_id};
use step::{PendingCall, PendingWork, answer_text};

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
const CALLS_A_REPLY_MAX: usize = 32;

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

/// The form in which a model wrote a call. Messages about the call use its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallForm {
    /// A tool call of the backend.
    Tool,
    /// The action `USE_TOOL`.
    UseTool,
    /// The action `AGENT_CALL`.
    AgentCall,
}

impl CallForm {
    /// Returns the form of tool calls under a protocol.
    pub(crate) fn of(protocol: Protocol) -> CallForm {
        match protocol {
            Protocol::Tools => CallForm::Tool,
            Protocol::Actions => CallForm::UseTool,
        }
    }
}

/// The tool loop of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolLoop {
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
    /// Files that tools changed.
    pub(crate) changes: FileChanges,
    /// Criteria that checks have seen.
    pub(crate) criteria: KnownCriteria,
}

impl ToolLoop {
    /// Returns whether the agent has something to call or uses the action protocol.
    pub(crate) fn is_active(&self) -> bool {
        !self.callables.is_empty() || self.envelope.is_some()
    }

    /// Takes the arguments of opening calls from a blueprint whose placeholders are filled in.
    pub(crate) fn fill_opening(&mut self, opening: &[Opening]) {
        self.turns.iter_mut().for_each(|turn| turn.fill_opening(opening));
        if let Some(step) = &mut self.step {
            step.fill_opening(opening);
        }
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

    /// Returns the answers of agents so far, with the names of the agents. Failures and answers that come later as a
    /// callback are left out.
    pub(crate) fn results_of_agents(&self) -> Vec<(String, String)> {
        let calls = self.turns.iter().flat_map(|turn| &turn.calls);
        let results = calls.filter_map(|call| match &call.child {
            Some((agent, Some(_))) if call.is_result => Some((agent.clone(), call.answer.clone())),
            _ => None,
        });
        results.collect()
    }

    /// Returns the number of tool calls that are left.
    fn calls_left(&self) -> usize {
        self.limits.tool_calls.saturating_sub(self.tool_calls) as usize
    }

    /// Returns the error message if this many further calls exceed a limit.
    fn exceeded_limit(&self, calls: usize) -> Option<String> {
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
    fn check_call(
        &self,
        call: ToolCall,
        known: &[KnownChild],
        form: CallForm,
        has_contract: bool,
    ) -> (PendingCall, Option<String>) {
        let callable = self.callables.find(&call.name);
        let work = match callable {
            None => Err(self.callables.unknown(&call.name, form == CallForm::Tool, has_contract)),
            Some(callable) => match (callable.read(&call.arguments), callable.kind) {
                (Err(errors), _) if form == CallForm::AgentCall => Err(envelope::wrong_agent_call(&errors)),
                (Err(errors), _) => Err(callable.wrong_arguments(&errors)),
                (Ok(input), CallableKind::Tool) => Ok(PendingWork::Tool(input)),
                (Ok(input), kind) => {
                    child(&call.id, kind, &input, known).map(|child| PendingWork::Child(Box::new(child)))
                }
            },
        };
        let name = callable.map_or(call.name, |callable| callable.name.clone());
        let (work, wrong) = match work {
            Ok(work) => (work, None),
            Err(message) => (PendingWork::Nothing, Some(message)),
        };
        (
            PendingCall {
                id: call.id,
                name,
                arguments: call.arguments,
                work,
                answer: None,
                is_result: false,
            },
            wrong,
        )
    }

    /// Begins a step with the calls of a reply. Invalid calls are answered at once, by the returned
    /// events; the others become pending. Returns an error message if the calls exceed a limit.
    pub(crate) fn begin_step(
        &mut self,
        plan: CallPlan,
        (calls, form): (Vec<ToolCall>, CallForm),
        reply: &Reply,
        contract: Option<&CompiledContract>,
        history: &History,
    ) -> Result<Vec<EventBody>, String> {
        // Under the action protocol `submit_result` is not a tool.
        let is_submit = |call: &&ToolCall| !reply.tool_calls.is_empty() && is_submission(call, contract);
        let submits: Vec<ToolCall> = reply.tool_calls.iter().filter(is_submit).cloned().collect();
        let named = self.with_unique_ids(&[calls, submits].concat(), &history.past_runs);
        let (submits, calls): (Vec<_>, Vec<_>) = named.into_iter().partition(|call| is_submit(&call));
        let submission = (!submits.is_empty()).then(|| Reply {
            text: String::new(),
            tool_calls: submits,
            stop: StopReason::ToolCalls,
            ..reply.clone()
        });
        let left = self.calls_left();
        if let Some(message) = self.exceeded_limit(calls.len()).filter(|_| submission.is_none()) {
            return Err(message);
        }
        let (mut list, mut answers) = (Vec::new(), Vec::new());
        let has_keys = reply.flags.iter().any(|flag| flag == KEY_REMOVED);
        for (index, call) in calls.into_iter().enumerate() {
            let not_made = match index {
                _ if has_keys && call.arguments.contains(REDACTED) => {
                    Some("its arguments hold a key, which no tool is given".to_owned())
                }
                _ if index >= left => Some(format!("only {left} more calls were allowed")),
                CALLS_A_REPLY_MAX.. => Some(format!("a reply may make {CALLS_A_REPLY_MAX} calls")),
                _ => None,
            };
            let known = &history.known_children;
            let (mut pending, mut wrong) = self.check_call(call, known, form, contract.is_some());
            match not_made {
                Some(reason) => {
                    pending.work = PendingWork::Nothing;
                    wrong = Some(format!("This call was not made: {reason}."));
                }
                None => self.tool_calls += 1,
            }
            answers.extend(wrong.map(|message| rejected_call(&pending, message)));
            list.push(pending);
        }
        // Under the action protocol the call is the whole text, in whichever form it came.
        let assistant_text = match plan.protocol {
            Protocol::Actions if reply.text.is_empty() => reply_text(reply),
            _ => reply.text.clone(),
        };
        let step = Step { plan, assistant_text, calls: list, submission, is_opening: false };
        self.step = Some(Box::new(step));
        Ok(answers)
    }

    /// Begins a step with the opening calls of a run and their ids, before the first model call. Returns
    /// the events that answer invalid calls.
    pub(crate) fn begin_opening(
        &mut self,
        plan: CallPlan,
        opening: Vec<(String, Opening)>,
        known: &[KnownChild],
        has_contract: bool,
    ) -> Vec<EventBody> {
        let (mut list, mut answers) = (Vec::new(), Vec::new());
        for (id, call) in opening {
            let arguments = if call.arguments.is_null() { json!({}) } else { call.arguments.clone() };
            let called = ToolCall { id, name: call.tool.clone(), arguments: arguments.to_string() };
            let (pending, wrong) = self.check_call(called, known, CallForm::of(plan.protocol), has_contract);
            answers.extend(wrong.map(|message| rejected_call(&pending, message)));
            list.push(pending);
        }
        let assistant_text = String::new();
        let step = Step { plan, assistant_text, calls: list, submission: None, is_opening: true };
        self.step = Some(Box::new(step));
        answers
    }

    /// Records the result of a tool, and the facts that it shows.
    pub(crate) fn record_result(
        &mut self,
        call_id: &str,
        tool: &str,
        output: &Value,
        error: Option<&str>,
    ) -> Result<(), Error> {
        let step = self.step.as_mut().ok_or(Error::Journal("`post_tool` without a pending tool call"))?;
        let is_opening = step.is_opening;
        let call =
            step.unanswered_call(call_id).ok_or(Error::Journal("`post_tool` without a pending tool call"))?;
        call.answer = Some(answer_text(output, error));
        if let (PendingWork::Tool(input), CHECKING_TOOL) = (&call.work, tool) {
            if is_opening {
                self.criteria.record_request(input, output);
            } else {
                self.criteria.record_call(input, output);
            }
        }
        cite::record_seen_paths(&mut self.seen, tool, output);
        self.changes.record(tool, output);
        Ok(())
    }

    /// Records that a call has started or resumed a child.
    pub(crate) fn record_child_start(
        &mut self,
        call_id: &str,
        agent_name: &str,
        session_id: &SessionId,
        mode: ExecutionMode,
    ) -> Result<(), Error> {
        let call = self.step.as_mut().and_then(|step| step.unanswered_call(call_id));
        let call = call.ok_or(Error::Journal("`child_started` without a pending delegation"))?;
        let is_awaited = mode == ExecutionMode::Sync;
        call.work = PendingWork::Working {
            agent_name: agent_name.to_owned(),
            session_id: session_id.clone(),
            is_awaited,
        };
        if !is_awaited {
            call.answer = Some(
                json!({"session_id": session_id, "status": "running", "note": "the result will come as a message"})
                    .to_string(),
            );
        }
        Ok(())
    }

    /// Records the end of a child that a call waits for.
    pub(crate) fn record_child_end(&mut self, end: &ChildEnd) -> Result<(), Error> {
        let call = self.step.as_mut().and_then(|step| step.unanswered_child_call(end));
        let call =
            call.ok_or(Error::Journal("`child_completed` for a child that the run does not wait for"))?;
        call.is_result = end.is_completed();
        call.answer = Some(if end.is_completed() {
            end.result()
        } else {
            format!("Error: the agent {} failed: {}", end.agent_name, end.failure())
        });
        Ok(())
    }

    /// Ends the step once every call is answered, and returns it.
    pub(crate) fn end_step(&mut self) -> Option<Box<Step>> {
        let step = self.step.take_if(|step| step.is_over())?;
        self.turns.push(step.turn());
        Some(step)
    }
}

/// Returns the calls of a reply other than submissions, or `None` if there are none.
pub(crate) fn tool_calls_in(reply: &Reply, contract: Option<&CompiledContract>) -> Option<Vec<ToolCall>> {
    let calls: Vec<ToolCall> =
        reply.tool_calls.iter().filter(|call| !is_submission(call, contract)).cloned().collect();
    (!calls.is_empty()).then_some(calls)
}

/// Returns whether a call submits the result.
fn is_submission(call: &ToolCall, contract: Option<&CompiledContract>) -> bool {
    contract.is_some_and(|contract| call.name == *contract.tool.name)
}

/// Returns the event that answers a call that is not made.
fn rejected_call(pending: &PendingCall, message: String) -> EventBody {
    EventBody::PostTool {
        call_id: pending.id.clone(),
        tool_name: pending.name.clone(),
        tool_output: Value::Null,
        error: Some(message),
    }
}

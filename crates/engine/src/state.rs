//! A journal, folded: all that is needed to say what comes next.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use slipform_types::{
    AgentCard, AgentType, BackendInfo, Blueprint, CallError, Contract, Event, EventBody, Outcome, Protocol,
    Reply, RunErrorType, RunStatus, RunType, TierBackend, ToolDefinition,
};

use crate::action::{Action, Execution, ModelCall};
use crate::callable::Callables;
use crate::clarity::Clearing;
use crate::contract::Enforced;
use crate::conversation::Past;
use crate::delegation::Known;
use crate::envelope;
use crate::error::Error;
use crate::internal_children::Hired;
use crate::orchestrator::Orchestra;
use crate::output_mode::Route;
use crate::plan::{Planned, RequestContext};
use crate::program;
use crate::tool_state::ToolState;
use crate::usage::UsageLog;
use crate::verify_paths::Looking;

/// Retries for a run without a contract: an empty or cut-off answer is asked for once more.
pub(crate) const RETRIES_WITHOUT_CONTRACT: u32 = 1;

/// The state of a run.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub(crate) task: Option<Task>,
    pub(crate) ladder: Vec<TierBackend>,
    pub(crate) rung: RungState,
    pub(crate) usage: UsageLog,
    pub(crate) tools: ToolState,
    pub(crate) plan: Option<Planned>,
    /// The team's work, for orchestrators.
    pub(crate) orchestra: Option<Box<Orchestra>>,
    /// How clear the answers were so far.
    pub(crate) clearing: Clearing,
    /// Agents that the engine itself has work for, and not the model.
    pub(crate) hired: Vec<Hired>,
    /// All of them that there ever were.
    pub(crate) hires: u32,
    /// A result that names files, before it is known whether they are there.
    pub(crate) looking: Option<Box<Looking>>,
    /// The program that is to be run, for procedural agents.
    pub(crate) program: Option<Box<Execution>>,
    /// The session's earlier runs.
    pub(crate) past: Vec<Past>,
    /// The agents that this session has started.
    pub(crate) children: Vec<Known>,
    pub(crate) notes: VecDeque<EventBody>,
    pub(crate) outcome: Option<Outcome>,
    ended: bool,
}

/// What the run is about.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) blueprint: Arc<Blueprint>,
    pub(crate) contract: Option<Enforced>,
    pub(crate) parameters: Value,
    pub(crate) input: String,
    /// The schema as a grammar has it, where that can say more than the contract's own.
    pub(crate) under_grammar: Option<Value>,
}

/// Where the run stands on its ladder.
#[derive(Debug, Clone, Default)]
pub(crate) struct RungState {
    pub(crate) index: usize,
    pub(crate) routes: Vec<Route>,
    pub(crate) at: usize,
    /// Retries since the rung was climbed, or since the last step that led anywhere.
    pub(crate) retries: u32,
    /// Whether a patch correction was asked for and did not help.
    pub(crate) patched: bool,
    /// Whether a reminder was given.
    pub(crate) reminded: bool,
}

impl State {
    /// Folds the whole journal of a session.
    pub fn from_journal<'e>(events: impl IntoIterator<Item = &'e Event>) -> Result<State, Error> {
        let mut state = State::default();
        for event in events {
            state.fold(&event.body)?;
        }
        Ok(state)
    }

    /// Folds one more event.
    pub fn fold(&mut self, body: &EventBody) -> Result<(), Error> {
        if let (true, EventBody::RunStart { run_type: RunType::ResumeSession, .. }) = (self.ended, body) {
            let (past, children) = (std::mem::take(&mut self.past), std::mem::take(&mut self.children));
            *self = State { past, children, ..State::default() };
        }
        if self.ended {
            return Err(Error::Journal("an event follows run_completed"));
        }
        match body {
            EventBody::RunStart { blueprint, contract, parameters, input, .. } => {
                self.start(blueprint, contract.as_ref(), parameters, input)
            }
            EventBody::AttemptStarted { ladder, blueprint, tools, agents } => {
                self.fill(blueprint.as_ref());
                self.attempt(ladder, tools, agents)
            }
            EventBody::LeaseExpired { .. } => Ok(()),
            EventBody::ToolsFailed { error } => {
                self.cut_short(RunErrorType::ToolFailed, error.clone());
                Ok(())
            }
            EventBody::Message { content, reply, .. } => {
                let reply = Reply { text: content.clone(), ..(**reply).clone() };
                self.replied(&reply)
            }
            EventBody::CallFailed { error } => self.call_failed(error),
            EventBody::PreTool { .. } => Ok(()),
            EventBody::PathsChecked { missing, .. } => self.looked(missing),
            EventBody::PostTool { call_id, tool_name, tool_output, error } => {
                self.noted(body);
                self.tool_answered(call_id, tool_name, tool_output, error.as_deref())
            }
            EventBody::ChildStarted { call_id, agent_name, child_session_id, execution_mode, .. } => {
                self.child_started(call_id, agent_name, child_session_id, *execution_mode)
            }
            EventBody::ChildCompleted(end) => self.child_completed(end),
            EventBody::ValidationFailed { .. }
            | EventBody::Escalated { .. }
            | EventBody::PlanCreated { .. }
            | EventBody::ClarityScored { .. } => self.decided(body),
            EventBody::DeadlineReached { partial } => {
                self.interrupted(partial.as_deref());
                let limit = self.task.as_ref().and_then(|task| task.blueprint.limits.timeout_seconds);
                let limit = limit.map(|seconds| format!(" of {seconds} s")).unwrap_or_default();
                self.cut_short(RunErrorType::Timeout, format!("the run's time limit{limit} was reached"));
                Ok(())
            }
            EventBody::StopRequested { partial } => {
                self.interrupted(partial.as_deref());
                self.cut_short(RunErrorType::Stopped, "the run was stopped".to_owned());
                Ok(())
            }
            EventBody::Result { .. } => Ok(()),
            EventBody::RunCompleted { .. } => {
                self.remember();
                self.ended = true;
                Ok(())
            }
        }
    }

    /// A decision is in the journal.
    fn decided(&mut self, body: &EventBody) -> Result<(), Error> {
        if self.was_cut_short() {
            // Whoever stopped the run may have come before the runner's last word on it.
            self.noted(body);
            return Ok(());
        }
        let note = self.notes.pop_front();
        note.map(|_| ()).ok_or(Error::Journal("a decision was noted that was never made"))
    }

    /// A decision that was waiting to be noted, and now is.
    fn noted(&mut self, body: &EventBody) {
        if self.notes.front() == Some(body) {
            self.notes.pop_front();
        }
    }

    fn start(
        &mut self,
        blueprint: &Arc<Blueprint>,
        contract: Option<&Arc<Contract>>,
        parameters: &Value,
        input: &str,
    ) -> Result<(), Error> {
        if self.task.is_some() {
            return Err(Error::Journal("a run starts twice"));
        }
        let own = blueprint.response_type;
        let contract = contract.map(|contract| Enforced::compile(contract, own)).transpose()?;
        let (blueprint, parameters, input) = (blueprint.clone(), parameters.clone(), input.to_owned());
        self.task = Some(Task { blueprint, contract, parameters, input, under_grammar: None });
        Ok(())
    }

    /// Takes the agent whose placeholders are filled in. Every attempt brings one: the journal does not hold the values
    /// of variables, so a state that was folded from it has their placeholders.
    fn fill(&mut self, blueprint: Option<&Arc<Blueprint>>) {
        let (Some(task), Some(blueprint)) = (&mut self.task, blueprint) else { return };
        task.blueprint = blueprint.clone();
        if let Some(step) = &mut self.tools.step {
            step.fill_opening(&blueprint.opening);
        }
        if let Some(planned) = &mut self.plan {
            planned.forget_request();
        }
    }

    /// An attempt begins. Later attempts find the run as the first one left it, and the tools have to be the same.
    fn attempt(
        &mut self,
        ladder: &[TierBackend],
        tools: &[ToolDefinition],
        agents: &[AgentCard],
    ) -> Result<(), Error> {
        if !self.ladder.is_empty() || self.program.is_some() {
            if let Some(name) = self.tools.callables.changed(tools) {
                let message = format!("the definition of the tool '{name}' has changed since the run began");
                self.cut_short(RunErrorType::ToolFailed, message);
            }
            return Ok(());
        }
        let Some(task) = &self.task else {
            return Err(Error::Journal("an attempt has no run or no backend"));
        };
        if task.blueprint.kind == AgentType::Procedural {
            self.program = Some(Box::new(program::execution(&task.blueprint, &task.parameters)));
            return Ok(());
        }
        if ladder.is_empty() {
            return Err(Error::Journal("an attempt has no run or no backend"));
        }
        if task.blueprint.kind == AgentType::Orchestrator {
            self.ladder = ladder.to_vec();
            return self.begin_orchestra(agents);
        }
        let callables = Callables::of(tools, agents)?;
        let speaks = task.blueprint.protocol == Protocol::Actions;
        let envelope = (speaks || !callables.is_empty())
            .then(|| envelope::enforced(&callables, task.contract.as_ref()).map(Arc::new))
            .transpose()?;
        self.tools = ToolState { callables: Arc::new(callables), envelope, ..ToolState::default() };
        self.ladder = ladder.to_vec();
        self.climb(0);
        self.open();
        Ok(())
    }

    /// Keeps what later runs of the session have to know.
    fn remember(&mut self) {
        let Some(task) = &self.task else { return };
        let answer = match &self.outcome {
            Some(Outcome::Completed(success)) => match (&success.result_data, &success.result_text) {
                (Some(data), _) => data.to_string(),
                (None, text) => text.clone().unwrap_or_default(),
            },
            _ => self.usage.replies.last().cloned().unwrap_or_default(),
        };
        // No chat template takes an empty turn.
        let answer = if answer.trim().is_empty() { "(no answer)".to_owned() } else { answer };
        let turns = std::mem::take(&mut self.tools.turns);
        let input = self.orchestra.as_ref().map_or(&task.input, |orchestra| orchestra.input());
        self.past.push(Past { input: input.clone(), turns, answer });
    }

    fn replied(&mut self, reply: &Reply) -> Result<(), Error> {
        let Some(planned) = self.plan.take() else {
            return Err(Error::Journal("a reply came to no question"));
        };
        self.account(&planned);
        self.usage.replied(reply);
        if self.was_cut_short() {
            // It was under mode when the run was stopped: paid for, kept, and not acted upon.
            self.refresh_failure();
        } else {
            self.decide_on_reply(planned.plan, reply);
        }
        Ok(())
    }

    fn call_failed(&mut self, error: &CallError) -> Result<(), Error> {
        let Some(planned) = self.plan.take() else {
            return Err(Error::Journal("a call failed that was never made"));
        };
        self.account(&planned);
        if self.was_cut_short() {
            self.refresh_failure();
        } else {
            self.decide_on_failure(planned.plan, error);
        }
        Ok(())
    }

    /// A reply was not waited for. What was written of it is paid for and kept, as that of a whole one.
    fn interrupted(&mut self, partial: Option<&str>) {
        let Some(text) = partial.filter(|_| !matches!(self.outcome, Some(Outcome::Completed(_)))) else {
            return;
        };
        let planned = self.plan.take();
        if let Some(planned) = &planned {
            self.account(planned);
        }
        self.usage.replied(&Reply { text: text.to_owned(), ..Reply::default() });
        if let Some(planned) = planned {
            self.keep_partial(&planned.plan, text);
        }
        self.refresh_failure();
    }

    /// Whether the run ended from outside, perhaps in the middle of a call.
    pub(crate) fn was_cut_short(&self) -> bool {
        self.outcome.is_some()
    }

    fn account(&mut self, planned: &Planned) {
        self.usage.called(planned.plan.is_retry);
        self.usage.strategy = planned.plan.mode.strategy();
        if let Some(context) = self.context() {
            let unenforced = planned.prepared(&context).unenforced.clone();
            self.usage.unenforced(unenforced);
        }
    }

    /// All that a request is made of.
    fn context(&self) -> Option<RequestContext<'_>> {
        let (task, backend) = (self.task.as_ref()?, self.backend()?);
        Some(RequestContext { task, tools: &self.tools, past: &self.past, backend })
    }

    /// The backend of the current rung.
    pub(crate) fn backend(&self) -> Option<&BackendInfo> {
        self.ladder.get(self.rung.index).map(|tier| &tier.backend)
    }

    pub(crate) fn contract(&self) -> Option<&Enforced> {
        self.task.as_ref()?.contract.as_ref()
    }

    /// The most retries on each rung.
    pub(crate) fn retries_max(&self) -> u32 {
        let without = match &self.tools.envelope {
            Some(envelope) => envelope.options().max_retries,
            None => RETRIES_WITHOUT_CONTRACT,
        };
        self.contract().map_or(without, |contract| contract.options().max_retries)
    }

    /// Whether the backend that is asked next has been talked to in this session before.
    pub fn is_resumed(&self) -> bool {
        // Earlier runs began on the first rung, and most ended there.
        let before = !self.past.is_empty() && self.rung.index == 0;
        self.usage.rungs.last().is_some_and(|rung| rung.calls > 0) || before
    }

    /// How the run ended, once it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Requests made so far.
    pub fn calls(&self) -> u32 {
        self.usage.calls
    }

    /// The status that the outcome means for the run.
    pub fn status(outcome: &Outcome) -> RunStatus {
        match outcome {
            Outcome::Completed(_) => RunStatus::Completed,
            Outcome::Failed(failure) if failure.error.kind == RunErrorType::Stopped => RunStatus::Stopped,
            Outcome::Failed(_) => RunStatus::Failed,
        }
    }
}

/// What comes next, or nothing when the run has ended or no attempt has begun.
pub fn next(state: &State) -> Option<Action> {
    if state.ended {
        return None;
    }
    if let Some(note) = state.notes.front() {
        return Some(Action::Note(Box::new(note.clone())));
    }
    if let Some(outcome) = &state.outcome {
        return Some(Action::Finish(Box::new(outcome.clone())));
    }
    if let Some(looking) = &state.looking {
        return Some(Action::Look(looking.paths.clone()));
    }
    if let Some(program) = &state.program {
        return Some(Action::Execute(program.clone()));
    }
    if let Some(hired) = state.hired.iter().find(|hired| hired.session_id.is_none()) {
        return Some(Action::Delegate(Box::new(hired.child.clone())));
    }
    if !state.hired.is_empty() {
        return Some(Action::Park);
    }
    if let Some(step) = &state.tools.step {
        if let Some(child) = step.child() {
            return Some(Action::Delegate(Box::new(child.clone())));
        }
        let tools = step.tools();
        return Some(if tools.is_empty() { Action::Park } else { Action::Tools(tools) });
    }
    let (context, planned) = (state.context()?, state.plan.as_ref()?);
    let on_rung = state.usage.rungs.last().map_or(0, |rung| rung.calls);
    let (number, of) = match state.tools.callables.is_empty() {
        true => ((on_rung + 1).min(state.retries_max() + 1), state.retries_max() + 1),
        false => ((state.tools.steps() + 1).min(state.tools.bounds.steps), state.tools.bounds.steps),
    };
    Some(Action::Call(Box::new(ModelCall {
        backend: context.backend.name.clone(),
        number,
        of,
        asked: planned.plan.describe(),
        request: planned.prepared(&context).request.clone(),
    })))
}

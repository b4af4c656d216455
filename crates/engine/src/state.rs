//! The state of a run, folded from its journal, and the next action that follows from it.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use slipform_types::{
    AgentCard, AgentType, BackendInfo, Blueprint, CallError, Contract, Event, EventBody, Outcome, Protocol,
    Reply, RunErrorType, RunStatus, RunType, TierBackend, ToolDefinition,
};

use crate::action::{Action, Execution, ModelCall};
use crate::call_plan::{PlannedCall, RequestContext};
use crate::callable::Callables;
use crate::clarity::ClarityState;
use crate::contract::CompiledContract;
use crate::conversation::PastRun;
use crate::delegation::KnownChild;
use crate::envelope;
use crate::error::Error;
use crate::internal_children::InternalChild;
use crate::orchestrator::Orchestration;
use crate::output_mode::Route;
use crate::program;
use crate::tool_state::ToolState;
use crate::usage::UsageLog;
use crate::verify_paths::PathCheck;

/// Retries for a run without a contract: an empty or truncated answer is requested once more.
pub(crate) const RETRIES_WITHOUT_CONTRACT: u32 = 1;

/// The state of a run.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub(crate) task: Option<Task>,
    pub(crate) ladder: Vec<TierBackend>,
    pub(crate) rung: RungState,
    pub(crate) usage: UsageLog,
    pub(crate) tools: ToolState,
    pub(crate) plan: Option<PlannedCall>,
    /// Present for orchestrators once their first attempt has begun.
    pub(crate) orchestration: Option<Box<Orchestration>>,
    /// The clarity scores of the answers so far.
    pub(crate) clarity_state: ClarityState,
    /// Children that the engine started for its own purposes, not on request of the model.
    pub(crate) internal_children: Vec<InternalChild>,
    /// The number of internal children started in this run, including those that ended.
    pub(crate) internal_children_started: u32,
    /// A result that waits for the runner to check the paths it names.
    pub(crate) path_check: Option<Box<PathCheck>>,
    /// The program to run, for procedural agents.
    pub(crate) program: Option<Box<Execution>>,
    /// The earlier runs of the session.
    pub(crate) past_runs: Vec<PastRun>,
    /// The children that this session has started.
    pub(crate) children: Vec<KnownChild>,
    pub(crate) notes: VecDeque<EventBody>,
    pub(crate) outcome: Option<Outcome>,
    has_ended: bool,
}

/// The agent, contract and input of the run.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) blueprint: Arc<Blueprint>,
    pub(crate) contract: Option<CompiledContract>,
    pub(crate) parameters: Value,
    pub(crate) input: String,
    /// A narrower schema for grammars, if one exists that is stricter than the schema of the
    /// contract.
    pub(crate) under_grammar: Option<Value>,
}

/// The position of the run on its escalation ladder.
#[derive(Debug, Clone, Default)]
pub(crate) struct RungState {
    pub(crate) index: usize,
    pub(crate) routes: Vec<Route>,
    pub(crate) at: usize,
    /// Retries since the run entered this rung, or since the last step that made progress.
    pub(crate) retries: u32,
    /// Whether a patch correction was already requested.
    pub(crate) has_tried_patch: bool,
    /// Whether the model was already reminded to call the tool.
    pub(crate) has_reminded: bool,
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

    /// Folds one event.
    pub fn fold(&mut self, body: &EventBody) -> Result<(), Error> {
        if let (true, EventBody::RunStart { run_type: RunType::ResumeSession, .. }) = (self.has_ended, body) {
            let (past_runs, children) =
                (std::mem::take(&mut self.past_runs), std::mem::take(&mut self.children));
            *self = State { past_runs, children, ..State::default() };
        }
        if self.has_ended {
            return Err(Error::Journal("an event follows run_completed"));
        }
        match body {
            EventBody::RunStart { blueprint, contract, parameters, input, .. } => {
                self.begin_run(blueprint, contract.as_ref(), parameters, input)
            }
            EventBody::AttemptStarted { ladder, blueprint, tools, agents } => {
                self.apply_filled_blueprint(blueprint.as_ref());
                self.begin_attempt(ladder, tools, agents)
            }
            EventBody::LeaseExpired { .. } => Ok(()),
            EventBody::ToolsFailed { error } => {
                self.interrupt(RunErrorType::ToolFailed, error.clone());
                Ok(())
            }
            EventBody::Message { content, reply, .. } => {
                let reply = Reply { text: content.clone(), ..(**reply).clone() };
                self.handle_reply(&reply)
            }
            EventBody::CallFailed { error } => self.handle_call_failure(error),
            EventBody::PreTool { .. } => Ok(()),
            EventBody::PathsChecked { missing, .. } => self.handle_paths_checked(missing),
            EventBody::PostTool { call_id, tool_name, tool_output, error } => {
                self.remove_pending_note(body);
                self.handle_tool_result(call_id, tool_name, tool_output, error.as_deref())
            }
            EventBody::ChildStarted { call_id, agent_name, child_session_id, execution_mode, .. } => {
                self.handle_child_started(call_id, agent_name, child_session_id, *execution_mode)
            }
            EventBody::ChildCompleted(end) => self.handle_child_completed(end),
            EventBody::ValidationFailed { .. }
            | EventBody::Escalated { .. }
            | EventBody::PlanCreated { .. }
            | EventBody::ClarityScored { .. } => self.record_decision(body),
            EventBody::DeadlineReached { partial } => {
                self.record_partial_reply(partial.as_deref());
                let limit = self.task.as_ref().and_then(|task| task.blueprint.limits.timeout_seconds);
                let limit = limit.map(|seconds| format!(" of {seconds} s")).unwrap_or_default();
                self.interrupt(RunErrorType::Timeout, format!("the run's time limit{limit} was reached"));
                Ok(())
            }
            EventBody::StopRequested { partial } => {
                self.record_partial_reply(partial.as_deref());
                self.interrupt(RunErrorType::Stopped, "the run was stopped".to_owned());
                Ok(())
            }
            EventBody::Result { .. } => Ok(()),
            EventBody::RunCompleted { .. } => {
                self.save_past_run();
                self.has_ended = true;
                Ok(())
            }
        }
    }

    /// Records that a decision event was appended.
    fn record_decision(&mut self, body: &EventBody) -> Result<(), Error> {
        if self.is_interrupted() {
            // A stop may be appended before the last decision of the runner.
            self.remove_pending_note(body);
            return Ok(());
        }
        let note = self.notes.pop_front();
        note.map(|_| ()).ok_or(Error::Journal("a decision event without a pending decision"))
    }

    /// Removes the first pending note if it is this event.
    fn remove_pending_note(&mut self, body: &EventBody) {
        if self.notes.front() == Some(body) {
            self.notes.pop_front();
        }
    }

    fn begin_run(
        &mut self,
        blueprint: &Arc<Blueprint>,
        contract: Option<&Arc<Contract>>,
        parameters: &Value,
        input: &str,
    ) -> Result<(), Error> {
        if self.task.is_some() {
            return Err(Error::Journal("a second `run_start` in the same run"));
        }
        let own = blueprint.response_type;
        let contract = contract.map(|contract| CompiledContract::compile(contract, own)).transpose()?;
        let (blueprint, parameters, input) = (blueprint.clone(), parameters.clone(), input.to_owned());
        self.task = Some(Task { blueprint, contract, parameters, input, under_grammar: None });
        Ok(())
    }

    /// Takes the agent whose placeholders are filled in. Every attempt brings one: the journal does not hold the values
    /// of variables, so a state that was folded from it has their placeholders.
    fn apply_filled_blueprint(&mut self, blueprint: Option<&Arc<Blueprint>>) {
        let (Some(task), Some(blueprint)) = (&mut self.task, blueprint) else { return };
        task.blueprint = blueprint.clone();
        if let Some(step) = &mut self.tools.step {
            step.fill_opening(&blueprint.opening);
        }
        if let Some(planned) = &mut self.plan {
            planned.forget_request();
        }
    }

    /// Begins an attempt. Later attempts continue from the existing state, and their tools must be
    /// unchanged.
    fn begin_attempt(
        &mut self,
        ladder: &[TierBackend],
        tools: &[ToolDefinition],
        agents: &[AgentCard],
    ) -> Result<(), Error> {
        if !self.ladder.is_empty() || self.program.is_some() {
            if let Some(name) = self.tools.callables.changed(tools) {
                let message = format!("the definition of the tool '{name}' has changed since the run began");
                self.interrupt(RunErrorType::ToolFailed, message);
            }
            return Ok(());
        }
        let Some(task) = &self.task else {
            return Err(Error::Journal("`attempt_started` without `run_start` or without a backend"));
        };
        if task.blueprint.kind == AgentType::Procedural {
            self.program = Some(Box::new(program::execution(&task.blueprint, &task.parameters)));
            return Ok(());
        }
        if ladder.is_empty() {
            return Err(Error::Journal("`attempt_started` without `run_start` or without a backend"));
        }
        if task.blueprint.kind == AgentType::Orchestrator {
            self.ladder = ladder.to_vec();
            return self.begin_orchestration(agents);
        }
        let callables = Callables::of(tools, agents)?;
        let uses_actions = task.blueprint.protocol == Protocol::Actions;
        let envelope = (uses_actions || !callables.is_empty())
            .then(|| envelope::compile(&callables, task.contract.as_ref()).map(Arc::new))
            .transpose()?;
        self.tools = ToolState { callables: Arc::new(callables), envelope, ..ToolState::default() };
        self.ladder = ladder.to_vec();
        self.enter_rung(0);
        self.begin_opening_calls();
        Ok(())
    }

    /// Saves the input, steps and answer of this run for later runs of the session.
    fn save_past_run(&mut self) {
        let Some(task) = &self.task else { return };
        let answer = match &self.outcome {
            Some(Outcome::Completed(success)) => match (&success.result_data, &success.result_text) {
                (Some(data), _) => data.to_string(),
                (None, text) => text.clone().unwrap_or_default(),
            },
            _ => self.usage.replies.last().cloned().unwrap_or_default(),
        };
        // Chat templates reject empty turns.
        let answer = if answer.trim().is_empty() { "(no answer)".to_owned() } else { answer };
        let turns = std::mem::take(&mut self.tools.turns);
        let input = self.orchestration.as_ref().map_or(&task.input, |orchestration| orchestration.input());
        self.past_runs.push(PastRun { input: input.clone(), turns, answer });
    }

    fn handle_reply(&mut self, reply: &Reply) -> Result<(), Error> {
        let Some(planned) = self.plan.take() else {
            return Err(Error::Journal("`message` without a pending model call"));
        };
        self.record_planned_call(&planned);
        self.usage.record_reply(reply);
        if self.is_interrupted() {
            // The reply arrived after the run was stopped: it is counted and kept, but not
            // evaluated.
            self.refresh_failure();
        } else {
            self.decide_on_reply(planned.plan, reply);
        }
        Ok(())
    }

    fn handle_call_failure(&mut self, error: &CallError) -> Result<(), Error> {
        let Some(planned) = self.plan.take() else {
            return Err(Error::Journal("`call_failed` without a pending model call"));
        };
        self.record_planned_call(&planned);
        if self.is_interrupted() {
            self.refresh_failure();
        } else {
            self.decide_on_failure(planned.plan, error);
        }
        Ok(())
    }

    /// Records a reply that was interrupted. The part received so far is counted and kept like a
    /// whole reply.
    fn record_partial_reply(&mut self, partial: Option<&str>) {
        let Some(text) = partial.filter(|_| !matches!(self.outcome, Some(Outcome::Completed(_)))) else {
            return;
        };
        let planned = self.plan.take();
        if let Some(planned) = &planned {
            self.record_planned_call(planned);
        }
        self.usage.record_reply(&Reply { text: text.to_owned(), ..Reply::default() });
        if let Some(planned) = planned {
            self.keep_partial(&planned.plan, text);
        }
        self.refresh_failure();
    }

    /// Returns whether the run already has an outcome, for example because it was stopped during a
    /// call.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.outcome.is_some()
    }

    fn record_planned_call(&mut self, planned: &PlannedCall) {
        self.usage.record_call(planned.plan.is_retry);
        self.usage.strategy = planned.plan.mode.strategy();
        if let Some(context) = self.context() {
            let unenforced = planned.prepared(&context).unenforced.clone();
            self.usage.set_unenforced(unenforced);
        }
    }

    /// Returns the inputs of the next request.
    fn context(&self) -> Option<RequestContext<'_>> {
        let (task, backend) = (self.task.as_ref()?, self.backend()?);
        Some(RequestContext { task, tools: &self.tools, past_runs: &self.past_runs, backend })
    }

    /// Returns the backend of the current rung.
    pub(crate) fn backend(&self) -> Option<&BackendInfo> {
        self.ladder.get(self.rung.index).map(|tier| &tier.backend)
    }

    pub(crate) fn contract(&self) -> Option<&CompiledContract> {
        self.task.as_ref()?.contract.as_ref()
    }

    /// Returns the maximum number of retries per rung.
    pub(crate) fn retries_max(&self) -> u32 {
        let without = match &self.tools.envelope {
            Some(envelope) => envelope.options().max_retries,
            None => RETRIES_WITHOUT_CONTRACT,
        };
        self.contract().map_or(without, |contract| contract.options().max_retries)
    }

    /// Returns whether the backend of the next call has already been called in this session.
    pub fn is_resumed(&self) -> bool {
        // Earlier runs of the session began on the first rung, and most ended there.
        let before = !self.past_runs.is_empty() && self.rung.index == 0;
        self.usage.rungs.last().is_some_and(|rung| rung.calls > 0) || before
    }

    /// Returns the outcome, once the run has one.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Returns the number of model calls so far.
    pub fn calls(&self) -> u32 {
        self.usage.calls
    }

    /// Returns the run status that corresponds to an outcome.
    pub fn status(outcome: &Outcome) -> RunStatus {
        match outcome {
            Outcome::Completed(_) => RunStatus::Completed,
            Outcome::Failed(failure) if failure.error.kind == RunErrorType::Stopped => RunStatus::Stopped,
            Outcome::Failed(_) => RunStatus::Failed,
        }
    }
}

/// Returns the next action, or `None` if the run has ended or no attempt has begun.
pub fn next(state: &State) -> Option<Action> {
    if state.has_ended {
        return None;
    }
    if let Some(note) = state.notes.front() {
        return Some(Action::Note(Box::new(note.clone())));
    }
    if let Some(outcome) = &state.outcome {
        return Some(Action::Finish(Box::new(outcome.clone())));
    }
    if let Some(path_check) = &state.path_check {
        return Some(Action::VerifyPaths(path_check.paths.clone()));
    }
    if let Some(program) = &state.program {
        return Some(Action::Execute(program.clone()));
    }
    if let Some(internal_child) =
        state.internal_children.iter().find(|internal_child| internal_child.session_id.is_none())
    {
        return Some(Action::Delegate(Box::new(internal_child.child.clone())));
    }
    if !state.internal_children.is_empty() {
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
    let (number, of) = if state.tools.callables.is_empty() {
        ((on_rung + 1).min(state.retries_max() + 1), state.retries_max() + 1)
    } else {
        ((state.tools.steps() + 1).min(state.tools.limits.steps), state.tools.limits.steps)
    };
    Some(Action::Call(Box::new(ModelCall {
        backend: context.backend.name.clone(),
        number,
        of,
        asked: planned.plan.describe(),
        request: planned.prepared(&context).request.clone(),
    })))
}

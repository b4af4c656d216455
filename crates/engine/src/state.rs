//! The state of a run, folded from its journal.

use std::sync::Arc;

use serde_json::Value;
use slipform_types::{
    AgentCard, AgentType, Blueprint, CallError, ChildEnd, Event, EventBody, ExecutionMode, Outcome, Protocol,
    Reply, RunErrorType, RunProgress, RunStatus, RunType, SessionId, TierBackend, ToolDefinition,
};

use crate::call_plan::{PlannedCall, RequestContext};
use crate::callable::Callables;
use crate::children::Children;
use crate::contract::CompiledContract;
use crate::conversation::PastRun;
use crate::decisions::Decisions;
use crate::envelope;
use crate::error::Error;
use crate::history::History;
use crate::ladder::Ladder;
use crate::program;
use crate::reply::{Acceptance, Source};
use crate::task::Task;
use crate::tool_loop::ToolLoop;
use crate::usage::UsageLog;

/// Retries for a run without a contract: an empty or truncated answer is requested once more.
pub(crate) const RETRIES_WITHOUT_CONTRACT: u32 = 1;

/// The state of a run. Each component owns one concern; decisions that need several are in `decide`
/// and `reply`.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The agent, contract and input. `None` before `run_start`.
    pub(crate) task: Option<Task>,
    /// The tiers to ask, the position on them and the planned model call.
    pub(crate) ladder: Ladder,
    /// The tools, their calls and the facts that they showed.
    pub(crate) tools: ToolLoop,
    /// The agents that the engine itself started: for subtasks and for scores.
    pub(crate) children: Children,
    /// The answer that is being accepted, while it waits for the runner.
    pub(crate) acceptance: Acceptance,
    /// The data of receipts and salvage.
    pub(crate) usage: UsageLog,
    /// The decisions to append: decision events and the outcome.
    pub(crate) decisions: Decisions,
    /// The earlier runs and children of the session.
    pub(crate) history: History,
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
        if let (true, EventBody::RunStart { run_type: RunType::ResumeSession, .. }) =
            (self.decisions.has_ended(), body)
        {
            *self = State { history: std::mem::take(&mut self.history), ..State::default() };
        }
        if self.decisions.has_ended() {
            return Err(Error::Journal("an event follows run_completed"));
        }
        match body {
            EventBody::RunStart {
                blueprint, contract, parameters, input, overrides, conversation, ..
            } => {
                if self.task.is_some() {
                    return Err(Error::Journal("a second `run_start` in the same run"));
                }
                let (contract, conversation) = (contract.as_ref(), conversation.as_ref());
                let task = Task::new(blueprint, contract, parameters, input, overrides, conversation)?;
                self.task = Some(task);
                Ok(())
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
                self.handle_reply(reply)
            }
            EventBody::CallFailed { error } => self.handle_call_failure(error),
            EventBody::PreTool { .. } => Ok(()),
            EventBody::PathsChecked { missing, .. } => self.handle_paths_checked(missing),
            EventBody::PostTool { call_id, tool_name, tool_output, error } => {
                self.decisions.remove_note(body);
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
                let limit = self.task.as_ref().and_then(|task| task.limits().timeout_seconds);
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
                self.decisions.end();
                Ok(())
            }
        }
    }

    /// Records that a decision event was appended.
    fn record_decision(&mut self, body: &EventBody) -> Result<(), Error> {
        if self.decisions.has_outcome() {
            // A stop may be appended before the last decision of the runner.
            self.decisions.remove_note(body);
            return Ok(());
        }
        self.decisions.confirm_note()
    }

    /// Takes the agent whose placeholders are filled in. Every attempt at an agent with placeholders brings one: the
    /// journal does not hold the values of variables, so a state that was folded from it has their placeholders.
    fn apply_filled_blueprint(&mut self, blueprint: Option<&Arc<Blueprint>>) {
        let (Some(task), Some(blueprint)) = (&mut self.task, blueprint) else { return };
        task.blueprint = match &mut self.children.orchestration {
            Some(orchestration) => orchestration.fill(blueprint),
            None => blueprint.clone(),
        };
        self.tools.fill_opening(&blueprint.opening);
        if let Some(planned) = &mut self.ladder.call {
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
        if !self.ladder.is_empty() || self.tools.program.is_some() {
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
            self.tools.program = Some(Box::new(program::execution(&task.blueprint, &task.parameters)));
            return Ok(());
        }
        if ladder.is_empty() {
            return Err(Error::Journal("`attempt_started` without `run_start` or without a backend"));
        }
        if task.blueprint.kind == AgentType::Orchestrator {
            self.ladder = Ladder::new(ladder);
            return self.begin_orchestration(agents);
        }
        self.fail_if_impossible();
        if self.decisions.has_outcome() {
            self.ladder = Ladder::new(ladder);
            return Ok(());
        }
        let Some(task) = &self.task else { return Ok(()) };
        let callables = match task.offered_tools() {
            [] => Callables::of(tools, agents)?,
            offered => Callables::of_client(offered, task.contract.is_some())?,
        };
        let uses_actions = task.blueprint.protocol == Protocol::Actions;
        let envelope = (uses_actions || !callables.is_empty())
            .then(|| envelope::compile(&callables, task.contract.as_ref()).map(Arc::new))
            .transpose()?;
        self.tools = ToolLoop { callables: Arc::new(callables), envelope, ..ToolLoop::default() };
        self.ladder = Ladder::new(ladder);
        self.enter_rung(0);
        self.begin_opening_calls();
        Ok(())
    }

    /// Saves the input, steps and answer of this run for later runs of the session.
    fn save_past_run(&mut self) {
        // A caller that keeps its own conversation sends all of it again.
        let Some(task) = self.task.as_ref().filter(|task| task.conversation.is_none()) else { return };
        let answer = match self.decisions.outcome() {
            Some(Outcome::Completed(success)) => match (&success.result_data, &success.result_text) {
                (Some(data), _) => data.to_string(),
                (None, text) => text.clone().unwrap_or_default(),
            },
            _ => self.usage.replies.last().cloned().unwrap_or_default(),
        };
        // Chat templates reject empty turns.
        let answer = if answer.trim().is_empty() { "(no answer)".to_owned() } else { answer };
        let turns = std::mem::take(&mut self.tools.turns);
        let input =
            self.children.orchestration.as_ref().map_or(&task.input, |orchestration| orchestration.input());
        self.history.past_runs.push(PastRun { input: input.clone(), turns, answer });
    }

    fn handle_reply(&mut self, reply: Reply) -> Result<(), Error> {
        let Some(planned) = self.ladder.call.take() else {
            return Err(Error::Journal("`message` without a pending model call"));
        };
        self.record_planned_call(&planned);
        self.usage.record_reply(&reply);
        if self.decisions.has_outcome() {
            // The reply arrived after the run was stopped: it is counted and kept, but not
            // evaluated.
            self.refresh_failure();
        } else {
            self.decide_on_reply(planned.plan, reply);
        }
        Ok(())
    }

    fn handle_call_failure(&mut self, error: &CallError) -> Result<(), Error> {
        let Some(planned) = self.ladder.call.take() else {
            return Err(Error::Journal("`call_failed` without a pending model call"));
        };
        self.record_planned_call(&planned);
        self.usage.call_error = Some(error.clone());
        if self.decisions.has_outcome() {
            self.refresh_failure();
        } else {
            self.decide_on_failure(planned.plan, error);
        }
        Ok(())
    }

    /// Handles the result of a tool, or of the program of a procedural agent.
    fn handle_tool_result(
        &mut self,
        call_id: &str,
        tool: &str,
        output: &Value,
        error: Option<&str>,
    ) -> Result<(), Error> {
        if self.decisions.has_outcome() {
            return Ok(());
        }
        if call_id == program::CALL_ID && self.tools.program.take().is_some() {
            self.handle_program_end(output, error);
            return Ok(());
        }
        if self.children.remove_refused(call_id) {
            // Internal children receive `post_tool` only when they are refused.
            let reason = error.unwrap_or("it could not be started").to_owned();
            self.handle_internal_child_end(call_id, Err(reason));
            return Ok(());
        }
        if self.handle_criteria_checked(call_id, output) {
            return Ok(());
        }
        self.tools.record_result(call_id, tool, output, error)?;
        self.end_step_if_over();
        Ok(())
    }

    /// Handles the end of the program of a procedural agent. A program is not retried.
    fn handle_program_end(&mut self, output: &Value, error: Option<&str>) {
        if let Some(error) = error {
            let kind =
                if output["timed_out"] == true { RunErrorType::Timeout } else { RunErrorType::ToolFailed };
            return self.end(kind, error.to_owned());
        }
        let text = output["stdout"].as_str().unwrap_or_default().trim();
        self.usage.replies.push(text.to_owned());
        self.examine(Source::Program(text.to_owned()));
    }

    fn handle_child_started(
        &mut self,
        call_id: &str,
        agent_name: &str,
        session_id: &SessionId,
        mode: ExecutionMode,
    ) -> Result<(), Error> {
        if self.decisions.has_outcome() || self.children.record_session(call_id, session_id) {
            return Ok(());
        }
        self.tools.record_child_start(call_id, agent_name, session_id, mode)?;
        self.history.record_child(session_id, agent_name);
        self.end_step_if_over();
        Ok(())
    }

    fn handle_child_completed(&mut self, end: &ChildEnd) -> Result<(), Error> {
        if self.decisions.has_outcome() {
            return Ok(());
        }
        if let Some(call_id) = self.children.remove_ended(&end.child_session_id) {
            self.handle_internal_child_end(&call_id, Ok(end));
            return Ok(());
        }
        self.tools.record_child_end(end)?;
        self.end_step_if_over();
        Ok(())
    }

    /// Passes the end of an internal child to the part of the engine that started it.
    fn handle_internal_child_end(&mut self, call_id: &str, end: Result<&ChildEnd, String>) {
        if self.acceptance.is_scoring_call(call_id) {
            self.handle_score(end);
        } else {
            self.handle_subtask_end(call_id, end);
        }
    }

    /// Records a reply that was interrupted. The part received so far is counted and kept like a
    /// whole reply.
    fn record_partial_reply(&mut self, partial: Option<&str>) {
        let is_completed =
            matches!(self.decisions.outcome(), Some(Outcome::Completed(_) | Outcome::ToolCalls(_)));
        let Some(text) = partial.filter(|_| !is_completed) else {
            return;
        };
        let planned = self.ladder.call.take();
        if let Some(planned) = &planned {
            self.record_planned_call(planned);
        }
        self.usage.record_reply(&Reply { text: text.to_owned(), ..Reply::default() });
        if let Some(planned) = planned {
            self.keep_partial(&planned.plan, text);
        }
        self.refresh_failure();
    }

    fn record_planned_call(&mut self, planned: &PlannedCall) {
        self.usage.record_call(planned.plan.is_retry);
        self.usage.strategy = planned.plan.mode.strategy();
        if let Some(context) = self.request_context() {
            let unenforced = planned.prepared(&context).unenforced.clone();
            self.usage.set_unenforced(unenforced);
        }
    }

    /// Returns the inputs of the next request.
    pub(crate) fn request_context(&self) -> Option<RequestContext<'_>> {
        let (task, backend) = (self.task.as_ref()?, self.ladder.backend()?);
        Some(RequestContext { task, tools: &self.tools, past_runs: &self.history.past_runs, backend })
    }

    pub(crate) fn contract(&self) -> Option<&CompiledContract> {
        self.task.as_ref()?.contract.as_ref()
    }

    /// Returns the maximum number of retries per rung.
    pub(crate) fn retries_max(&self) -> u32 {
        let without = match (self.conversation(), &self.tools.envelope) {
            (Some(conversation), _) => conversation.options.max_retries,
            (None, Some(envelope)) => envelope.options().max_retries,
            (None, None) => RETRIES_WITHOUT_CONTRACT,
        };
        self.contract().map_or(without, |contract| contract.options().max_retries)
    }

    /// Returns whether the backend of the next call has already been called in this session.
    pub fn is_resumed(&self) -> bool {
        // Earlier runs of the session began on the first rung, and most ended there.
        let before = !self.history.past_runs.is_empty() && self.ladder.rung.index == 0;
        self.usage.calls_on_rung() > 0 || before
    }

    /// Returns the outcome, once the run has one.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.decisions.outcome()
    }

    /// Returns how far the run has got.
    pub fn progress(&self) -> RunProgress {
        let is_retry = self.ladder.call.as_ref().is_some_and(|planned| planned.plan.is_retry);
        let rung = self.usage.rungs.last();
        RunProgress {
            retry_count: self.usage.retries + u32::from(is_retry),
            backend: rung.map(|rung| rung.backend.clone()),
            model: rung.map(|rung| rung.model.clone()),
        }
    }

    /// Returns the number of model calls so far.
    pub fn calls(&self) -> u32 {
        self.usage.calls
    }

    /// Returns the run status that corresponds to an outcome.
    pub fn status(outcome: &Outcome) -> RunStatus {
        match outcome {
            Outcome::Completed(_) | Outcome::ToolCalls(_) => RunStatus::Completed,
            Outcome::Failed(failure) if failure.error.kind == RunErrorType::Stopped => RunStatus::Stopped,
            Outcome::Failed(_) => RunStatus::Failed,
        }
    }
}

//! Orchestration: a model plans subtasks, other agents perform them, and the model summarizes the
//! results.
//!
//! Planning and summarizing each replace the task in the state. The plan has an internal contract;
//! the summary has the contract of the run. In between, the run waits for its subtasks.

pub(crate) mod prompts;
pub(crate) mod subtasks;

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_types::{
    AgentCard, BackendInfo, BackendKind, Blueprint, ChildEnd, ContractOptions, EventBody, RunStatus, Subtask,
    SubtaskOutcome,
};

use crate::children::{INTERNAL_CHILDREN_MAX, children_limit_message};
use crate::contract::CompiledContract;
use crate::error::Error;
use crate::prompt::RetryReason;
use crate::reply::Rejection;
use crate::task::Task;

use subtasks::{SubtaskState, SubtaskStatus, is_ready, read};

/// The tool that submits a plan.
pub(crate) const CREATE_PLAN: &str = "create_execution_plan";

/// The member that holds the summary, if it must be JSON.
const SUMMARY: &str = "summary";

/// The longest summary in JSON, in characters.
const SUMMARY_CHARACTERS_MAX: usize = 900;

/// The maximum number of tries per subtask before the plan fails.
const TRIES_MAX: u32 = 2;

/// The maximum number of plans per run.
const PLANS_MAX: u32 = 3;

/// The state of an orchestration.
#[derive(Debug, Clone)]
pub(crate) struct Orchestration {
    /// The task of the run, before planning replaced it.
    original_task: Task,
    team: Vec<AgentCard>,
    phase: Phase,
    /// The number of plans so far.
    plans: u32,
    /// Whether the latest plan repeats only subtasks that are done. The model then has no other way to do what
    /// failed.
    is_plan_exhausted: bool,
    subtask_states: Vec<SubtaskState>,
}

/// A subtask to start as an internal child.
pub(crate) struct SubtaskStart {
    pub(crate) call_id: String,
    pub(crate) agent: String,
    pub(crate) parameters: Value,
}

/// What follows when no subtask is running.
pub(crate) enum SubtasksEnd {
    /// All subtasks are done, or some are and another plan is not allowed: ask for the summary.
    Summarize,
    /// Subtasks failed: ask for another plan.
    PlanAgain,
    /// No subtask is done, and another plan is not allowed: fail the run.
    Fail { message: String, errors: Vec<String> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Planning,
    Working,
    Summarizing,
}

impl Orchestration {
    /// Begins the orchestration of a task by a team of agents.
    pub(crate) fn new(original_task: Task, team: &[AgentCard]) -> Orchestration {
        let (team, phase) = (team.to_vec(), Phase::Planning);
        let subtask_states = Vec::new();
        Orchestration { original_task, team, phase, plans: 0, is_plan_exhausted: false, subtask_states }
    }

    /// Returns whether the model is asked for a subtask plan.
    pub(crate) fn is_planning(&self) -> bool {
        self.phase == Phase::Planning
    }

    /// Returns the input of the run.
    pub(crate) fn input(&self) -> &String {
        &self.original_task.input
    }

    /// Returns the contract of the final result.
    pub(crate) fn contract(&self) -> Option<&CompiledContract> {
        self.original_task.contract.as_ref()
    }

    /// Returns the subtasks and their results, for the receipt and the salvage.
    pub(crate) fn outcomes(&self) -> Vec<SubtaskOutcome> {
        self.subtask_states.iter().map(SubtaskState::outcome).collect()
    }

    /// Returns whether the model is asked for the summary.
    pub(crate) fn is_summarizing(&self) -> bool {
        self.phase == Phase::Summarizing
    }

    /// Returns whether the summary lacks a part, because not every subtask is done.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_summarizing() && self.done().count() < self.subtask_states.len()
    }

    /// Returns whether there is a result to summarize although planning failed.
    pub(crate) fn can_summarize_without_plan(&self) -> bool {
        self.is_planning() && self.done().next().is_some()
    }

    fn done(&self) -> impl Iterator<Item = &SubtaskState> {
        self.subtask_states
            .iter()
            .filter(|subtask_state| matches!(subtask_state.status, SubtaskStatus::Done(_)))
    }

    fn done_ids(&self) -> Vec<&str> {
        self.done().map(|subtask_state| subtask_state.subtask.id.as_str()).collect()
    }

    fn ids(&self) -> Vec<&str> {
        self.subtask_states.iter().map(|subtask_state| subtask_state.subtask.id.as_str()).collect()
    }

    /// Returns the failed subtasks with their reasons.
    fn failed(&self) -> impl Iterator<Item = (&SubtaskState, &str)> {
        self.subtask_states.iter().filter_map(|subtask_state| match &subtask_state.status {
            SubtaskStatus::Failed(reason) => Some((subtask_state, reason.as_str())),
            _ => None,
        })
    }

    /// Takes the agent whose placeholders are filled in, for this and later phases, and returns the
    /// agent of the current phase.
    pub(crate) fn fill(&mut self, blueprint: &Arc<Blueprint>) -> Arc<Blueprint> {
        self.original_task.blueprint = blueprint.clone();
        self.phase_blueprint()
    }

    /// Returns the agent of the current phase, without the keys that have no effect in it.
    fn phase_blueprint(&self) -> Arc<Blueprint> {
        // Plans and summaries change no files; only the subtasks do.
        let mut reduced = Blueprint { changes: Vec::new(), ..(*self.original_task.blueprint).clone() };
        if self.phase != Phase::Summarizing {
            // A plan is not the result that these keys describe.
            reduced.cites.clear();
            reduced.checks.clear();
        }
        Arc::new(reduced)
    }

    /// Begins planning and returns the task of the model that plans.
    pub(crate) fn begin_planning(&mut self) -> Result<Task, Error> {
        self.phase = Phase::Planning;
        let done: Vec<Subtask> = self.done().map(|subtask_state| subtask_state.subtask.clone()).collect();
        let narrowed = subtasks::under_grammar(&self.team, &done, self.subtask_states.len());
        let original_task = &self.original_task;
        Ok(Task {
            blueprint: self.phase_blueprint(),
            contract: Some(CompiledContract::subtask_plan(subtasks::schema(&self.team), done)?),
            parameters: original_task.parameters.clone(),
            overrides: original_task.overrides.clone(),
            input: prompts::planning(&original_task.input, &self.team, &self.subtask_states),
            conversation: None,
            under_grammar: Some(narrowed),
        })
    }

    /// Takes the subtasks of a plan over and returns the event that records the plan.
    pub(crate) fn begin_working(&mut self, subtask_plan: &Value) -> EventBody {
        let failed: Vec<String> = self
            .failed()
            .map(|(subtask_state, reason)| {
                format!(
                    "{} ({}): {}",
                    subtask_state.subtask.id,
                    subtask_state.subtask.agent,
                    reason.replace("\n- ", "; ")
                )
            })
            .collect();
        self.phase = Phase::Working;
        self.plans += 1;
        let mut subtasks = read(subtask_plan);
        let before = std::mem::take(&mut self.subtask_states);
        let (done, not_done): (Vec<SubtaskState>, Vec<SubtaskState>) = before
            .into_iter()
            .partition(|subtask_state| matches!(subtask_state.status, SubtaskStatus::Done(_)));
        self.subtask_states = done;
        // A subtask that is done stays done if the new plan repeats it.
        subtasks.retain(|subtask| {
            !self.subtask_states.iter().any(|subtask_state| subtask_state.subtask.id == subtask.id)
        });
        self.is_plan_exhausted = subtasks.is_empty();
        if self.is_plan_exhausted {
            // Nothing replaces what failed, so it stays part of the account.
            self.subtask_states.extend(not_done);
        }
        self.subtask_states.extend(subtasks.iter().cloned().map(SubtaskState::new));
        let reason = (!failed.is_empty()).then(|| failed.join("; "));
        EventBody::PlanCreated { round: self.plans, reason, subtasks }
    }

    /// Starts every subtask that is ready, as long as the limit of children allows it. `children` is
    /// the number of children that the run has started so far.
    pub(crate) fn start_ready(&mut self, children: u32) -> Vec<SubtaskStart> {
        let most = INTERNAL_CHILDREN_MAX.saturating_sub(self.reserved_for_scoring());
        let mut left = most.saturating_sub(children);
        let mut ready: Vec<usize> =
            (0..self.subtask_states.len()).filter(|index| is_ready(&self.subtask_states, *index)).collect();
        ready.sort_by_key(|index| self.subtask_states[*index].subtask.priority);
        let mut starts = Vec::new();
        for index in ready {
            if left == 0 {
                self.subtask_states[index].status = SubtaskStatus::Failed(children_limit_message());
                continue;
            }
            left -= 1;
            let prompt = prompts::subtask(&self.original_task.input, &self.subtask_states, index);
            let subtask_state = &mut self.subtask_states[index];
            subtask_state.tries += 1;
            // A later plan may reuse the id of a subtask that failed under an earlier plan.
            let call_id = format!("{}.{}.{}", self.plans, subtask_state.subtask.id, subtask_state.tries);
            subtask_state.status = SubtaskStatus::Working(call_id.clone());
            let (agent, parameters) = (subtask_state.subtask.agent.clone(), json!({"prompt": prompt}));
            starts.push(SubtaskStart { call_id, agent, parameters });
        }
        starts
    }

    /// Records the end of a subtask. Returns `false` if no subtask runs under this call.
    pub(crate) fn record_end(&mut self, call_id: &str, end: Result<&ChildEnd, String>) -> bool {
        let is_it = |subtask_state: &&mut SubtaskState| matches!(&subtask_state.status, SubtaskStatus::Working(call) if call == call_id);
        let Some(subtask_state) = self.subtask_states.iter_mut().find(is_it) else { return false };
        // A child that was stopped on purpose is not retried.
        let is_stopped = matches!(end, Ok(end) if end.status == RunStatus::Stopped);
        subtask_state.status = match end.and_then(ChildEnd::done) {
            Ok(result) => SubtaskStatus::Done(result),
            Err(reason) if is_stopped => SubtaskStatus::Failed(reason),
            Err(reason) if subtask_state.tries < TRIES_MAX => SubtaskStatus::Waiting(Some(reason)),
            Err(reason) => SubtaskStatus::Failed(reason),
        };
        true
    }

    /// Returns what follows when no subtask is running. `children` is the number of children that
    /// the run has started so far.
    pub(crate) fn subtasks_end(&self, children: u32) -> SubtasksEnd {
        let failed: Vec<(String, &str)> = self
            .failed()
            .map(|(subtask_state, reason)| {
                (format!("'{}' ({})", subtask_state.subtask.id, subtask_state.subtask.agent), reason)
            })
            .collect();
        if failed.is_empty() {
            return SubtasksEnd::Summarize;
        }
        let has_child_left = children + self.reserved_for_scoring() < INTERNAL_CHILDREN_MAX;
        if self.plans < PLANS_MAX && has_child_left && !self.is_plan_exhausted {
            return SubtasksEnd::PlanAgain;
        }
        if self.done().next().is_some() {
            return SubtasksEnd::Summarize;
        }
        let names: Vec<&str> = failed.iter().map(|(name, _)| name.as_str()).collect();
        let plans = match self.plans {
            1 => "1 plan".to_owned(),
            plans => format!("{plans} plans"),
        };
        let is_limit_reached = failed.iter().all(|(_, reason)| *reason == children_limit_message());
        let message = if is_limit_reached {
            format!("{} could not begin: {}", names.join(", "), children_limit_message())
        } else {
            format!("{} failed, and {plans} did not help", names.join(", "))
        };
        let errors = failed.iter().map(|(name, reason)| format!("$: {name}: {reason}")).collect();
        SubtasksEnd::Fail { message, errors }
    }

    /// Returns how many internal children are reserved for scoring the answer.
    fn reserved_for_scoring(&self) -> u32 {
        let clarity = self.original_task.blueprint.clarity.as_ref();
        clarity.map_or(0, |clarity| clarity.max_rounds.into())
    }

    /// Begins summarizing and returns the task of the model that summarizes.
    pub(crate) fn begin_summarizing(&mut self, backend: Option<&BackendInfo>) -> Task {
        self.phase = Phase::Summarizing;
        let is_small = backend.is_some_and(|backend| backend.small);
        let is_embedded = backend.is_some_and(|backend| backend.kind == BackendKind::Embedded);
        let original_task = &self.original_task;
        let input = prompts::summary(
            &original_task.input,
            &self.subtask_states,
            original_task.contract.is_none(),
            is_small,
        );
        let blueprint = self.phase_blueprint();
        let mut task = Task { input, blueprint, ..original_task.clone() };
        if task.contract.is_none() && is_embedded {
            task.contract = bounded_text();
        }
        task
    }

    /// Returns the text of a summary that was requested as JSON to bound its length.
    pub(crate) fn summary_text(&self, value: &Value) -> Option<String> {
        let is_text = self.phase == Phase::Summarizing && self.contract().is_none();
        is_text.then(|| value[SUMMARY].as_str().unwrap_or_default().to_owned())
    }

    /// Returns a rejection if the summary does not cite its subtasks correctly.
    pub(crate) fn uncited_rejection(&self, text: &str) -> Option<Rejection> {
        if self.phase != Phase::Summarizing {
            return None;
        }
        let error = format!("$: {}", prompts::citations(text, &self.done_ids(), &self.ids())?);
        Some(Rejection::unmet(
            RetryReason::NoAnswer,
            vec![error],
            "The summary did not say where its statements come from",
        ))
    }

    /// Appends the list of subtasks to a summary that does not cite them.
    pub(crate) fn with_sources(&self, text: &str) -> String {
        let text = prompts::without_made_up(text, &self.ids());
        let listed = prompts::sources(self.done());
        format!("{}\n\n{listed}", text.trim_end())
    }

    /// Appends the subtasks that are not done to an incomplete summary. A model may leave them out.
    pub(crate) fn with_missing_subtasks(&self, text: String) -> String {
        if !self.is_incomplete() {
            return text;
        }
        format!("{}\n\n{}", text.trim_end(), prompts::missing(&self.outcomes()))
    }
}

/// Returns a contract that bounds the length of a text. Without a grammar, a small model writes
/// until it is truncated.
fn bounded_text() -> Option<CompiledContract> {
    let schema = json!({
        "type": "object",
        "required": [SUMMARY],
        "properties": {SUMMARY: {"type": "string", "minLength": 1, "maxLength": SUMMARY_CHARACTERS_MAX}},
    });
    CompiledContract::internal(SUMMARY, schema, ContractOptions::default()).ok()
}

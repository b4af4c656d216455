//! Orchestration: a model plans subtasks, other agents perform them, and the model summarizes the
//! results.
//!
//! Planning and summarizing each replace the task in the state. The plan has an internal contract;
//! the summary has the contract of the run. In between, the run waits for its subtasks.

mod prompts;
pub(crate) mod subtasks;

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_types::{
    AgentCard, BackendKind, Blueprint, ChildEnd, ContractOptions, EventBody, RunErrorType, RunStatus, Subtask,
};

use crate::contract::CompiledContract;
use crate::decide::Rejection;
use crate::error::Error;
use crate::internal_children::{INTERNAL_CHILDREN_MAX, children_limit_message};
use crate::prompt::RetryReason;
use crate::state::{State, Task};

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
    subtask_states: Vec<SubtaskState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Planning,
    Working,
    Summarizing,
}

impl Orchestration {
    /// Returns the input of the run.
    pub(crate) fn input(&self) -> &String {
        &self.original_task.input
    }

    /// Returns the contract of the final result.
    pub(crate) fn contract(&self) -> Option<&CompiledContract> {
        self.original_task.contract.as_ref()
    }

    /// Returns the subtasks and their results, for the salvage. `None` without subtasks, or while
    /// the summary is requested.
    pub(crate) fn report(&self) -> Option<Value> {
        let subtask_states: Vec<Value> = self.subtask_states.iter().map(SubtaskState::report).collect();
        (!subtask_states.is_empty() && self.phase != Phase::Summarizing)
            .then(|| json!({"subtasks": subtask_states}))
    }

    fn done(&self) -> impl Iterator<Item = &SubtaskState> {
        self.subtask_states
            .iter()
            .filter(|subtask_state| matches!(subtask_state.status, SubtaskStatus::Done(_)))
    }

    fn done_ids(&self) -> Vec<&str> {
        self.done().map(|subtask_state| subtask_state.subtask.id.as_str()).collect()
    }

    /// Returns the failed subtasks with their reasons.
    fn failed(&self) -> impl Iterator<Item = (&SubtaskState, &str)> {
        self.subtask_states.iter().filter_map(|subtask_state| match &subtask_state.status {
            SubtaskStatus::Failed(reason) => Some((subtask_state, reason.as_str())),
            _ => None,
        })
    }
}

impl State {
    /// Returns whether the model is asked for a plan.
    pub(crate) fn is_planning(&self) -> bool {
        self.orchestration.as_ref().is_some_and(|orchestration| orchestration.phase == Phase::Planning)
    }

    pub(crate) fn begin_orchestration(&mut self, team: &[AgentCard]) -> Result<(), Error> {
        let Some(original_task) = self.task.clone() else {
            return Err(Error::Journal("`attempt_started` without `run_start` or without a backend"));
        };
        if team.is_empty() {
            let message =
                "no agent to assign subtasks to; name an existing agent that takes a prompt in `agents`";
            self.interrupt(RunErrorType::ToolFailed, message.to_owned());
            return Ok(());
        }
        self.orchestration = Some(Box::new(Orchestration {
            original_task,
            team: team.to_vec(),
            phase: Phase::Planning,
            plans: 0,
            subtask_states: Vec::new(),
        }));
        self.ask_for_subtask_plan()
    }

    fn ask_for_subtask_plan(&mut self) -> Result<(), Error> {
        let Some(orchestration) = &mut self.orchestration else { return Ok(()) };
        orchestration.phase = Phase::Planning;
        let done: Vec<Subtask> =
            orchestration.done().map(|subtask_state| subtask_state.subtask.clone()).collect();
        let narrowed =
            subtasks::under_grammar(&orchestration.team, &done, orchestration.subtask_states.len());
        let original_task = &orchestration.original_task;
        let blueprint = Blueprint {
            cites: Vec::new(),
            changes: Vec::new(),
            checks: Vec::new(),
            ..(*original_task.blueprint).clone()
        };
        let task = Task {
            blueprint: Arc::new(blueprint),
            contract: Some(CompiledContract::subtask_plan(subtasks::schema(&orchestration.team), done)?),
            parameters: original_task.parameters.clone(),
            input: prompts::planning(
                &original_task.input,
                &orchestration.team,
                &orchestration.subtask_states,
            ),
            under_grammar: Some(narrowed),
        };
        self.task = Some(task);
        self.enter_rung(self.rung.index);
        Ok(())
    }

    /// Executes a plan: starts every subtask that is ready.
    pub(crate) fn execute_subtask_plan(&mut self, subtask_plan: &Value) {
        let Some(orchestration) = &mut self.orchestration else { return };
        // Invalid plans are not candidates for the result.
        self.usage.clear_candidates();
        let failed: Vec<String> = orchestration
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
        orchestration.phase = Phase::Working;
        orchestration.plans += 1;
        orchestration
            .subtask_states
            .retain(|subtask_state| matches!(subtask_state.status, SubtaskStatus::Done(_)));
        let mut subtasks = read(subtask_plan);
        // A subtask that is done stays done if the new plan repeats it.
        subtasks.retain(|subtask| {
            !orchestration.subtask_states.iter().any(|subtask_state| subtask_state.subtask.id == subtask.id)
        });
        orchestration.subtask_states.extend(subtasks.iter().cloned().map(SubtaskState::new));
        let reason = (!failed.is_empty()).then(|| failed.join("; "));
        self.notes.push_back(EventBody::PlanCreated { round: orchestration.plans, reason, subtasks });
        self.start_ready_subtasks();
    }

    /// Starts every subtask that is ready. If none is running, finishes or asks for another plan.
    fn start_ready_subtasks(&mut self) {
        let most = INTERNAL_CHILDREN_MAX.saturating_sub(self.reserved_for_scoring());
        let Some(orchestration) = &mut self.orchestration else { return };
        let mut starts = self.internal_children_started;
        let mut ready: Vec<usize> = (0..orchestration.subtask_states.len())
            .filter(|index| is_ready(&orchestration.subtask_states, *index))
            .collect();
        ready.sort_by_key(|index| orchestration.subtask_states[*index].subtask.priority);
        let mut started = Vec::new();
        for index in ready {
            if starts >= most {
                orchestration.subtask_states[index].status = SubtaskStatus::Failed(children_limit_message());
                continue;
            }
            starts += 1;
            let prompt =
                prompts::subtask(&orchestration.original_task.input, &orchestration.subtask_states, index);
            let subtask_state = &mut orchestration.subtask_states[index];
            subtask_state.tries += 1;
            // A later plan may reuse the id of a subtask that failed under an earlier plan.
            let call_id =
                format!("{}.{}.{}", orchestration.plans, subtask_state.subtask.id, subtask_state.tries);
            subtask_state.status = SubtaskStatus::Working(call_id.clone());
            started.push((call_id, subtask_state.subtask.agent.clone(), json!({"prompt": prompt})));
        }
        for (call_id, agent, parameters) in started {
            self.start_internal_child(call_id, CREATE_PLAN, &agent, parameters);
        }
        if self.internal_children.is_empty() {
            self.finish_or_replan();
        }
    }

    /// Handles the end of a subtask.
    pub(crate) fn handle_subtask_end(&mut self, call_id: &str, end: Result<&ChildEnd, String>) {
        let Some(orchestration) = &mut self.orchestration else { return };
        let is_it = |subtask_state: &&mut SubtaskState| matches!(&subtask_state.status, SubtaskStatus::Working(call) if call == call_id);
        let Some(subtask_state) = orchestration.subtask_states.iter_mut().find(is_it) else { return };
        // A child that was stopped on purpose is not retried.
        let is_stopped = matches!(end, Ok(end) if end.status == RunStatus::Stopped);
        subtask_state.status = match end.and_then(ChildEnd::done) {
            Ok(result) => SubtaskStatus::Done(result),
            Err(reason) if is_stopped => SubtaskStatus::Failed(reason),
            Err(reason) if subtask_state.tries < TRIES_MAX => SubtaskStatus::Waiting(Some(reason)),
            Err(reason) => SubtaskStatus::Failed(reason),
        };
        self.start_ready_subtasks();
    }

    /// Continues when no subtask is running: asks for the summary, for another plan, or fails the
    /// run.
    fn finish_or_replan(&mut self) {
        let Some(orchestration) = &self.orchestration else { return };
        if orchestration.failed().next().is_none() {
            return self.ask_for_summary();
        }
        let may_plan = orchestration.plans < PLANS_MAX
            && self.internal_children_started + self.reserved_for_scoring() < INTERNAL_CHILDREN_MAX;
        if may_plan {
            if let Err(error) = self.ask_for_subtask_plan() {
                self.end(RunErrorType::ToolFailed, error.to_string());
            }
            return;
        }
        let failed: Vec<(String, String)> = orchestration
            .failed()
            .map(|(subtask_state, reason)| {
                (
                    format!("'{}' ({})", subtask_state.subtask.id, subtask_state.subtask.agent),
                    reason.to_owned(),
                )
            })
            .collect();
        let names: Vec<&str> = failed.iter().map(|(name, _)| name.as_str()).collect();
        let plans = match orchestration.plans {
            1 => "1 plan".to_owned(),
            plans => format!("{plans} plans"),
        };
        let is_limit_reached = orchestration.failed().all(|(_, reason)| reason == children_limit_message());
        let message = if is_limit_reached {
            format!("{} could not begin: {}", names.join(", "), children_limit_message())
        } else {
            format!("{} failed, and {plans} did not help", names.join(", "))
        };
        let errors = failed.iter().map(|(name, reason)| format!("$: {name}: {reason}")).collect();
        self.fail(RunErrorType::ToolFailed, message, errors);
    }

    /// Asks the model for the summary.
    fn ask_for_summary(&mut self) {
        let is_small = self.backend().is_some_and(|backend| backend.small);
        let is_embedded = self.backend().is_some_and(|backend| backend.kind == BackendKind::Embedded);
        let Some(orchestration) = &mut self.orchestration else { return };
        orchestration.phase = Phase::Summarizing;
        let original_task = &orchestration.original_task;
        let input = prompts::summary(
            &original_task.input,
            &orchestration.subtask_states,
            original_task.contract.is_none(),
            is_small,
        );
        // The summary itself changes no files; only the subtasks do.
        let blueprint = Blueprint { changes: Vec::new(), ..(*original_task.blueprint).clone() };
        let mut task = Task { input, blueprint: Arc::new(blueprint), ..original_task.clone() };
        if task.contract.is_none() && is_embedded {
            task.contract = bounded_text();
        }
        self.task = Some(task);
        self.enter_rung(self.rung.index);
    }

    /// Returns the text of a summary that was requested as JSON to bound its length.
    pub(crate) fn summary_text(&self, value: &Value) -> Option<String> {
        let orchestration = self.orchestration.as_ref().filter(|it| it.phase == Phase::Summarizing)?;
        orchestration.contract().is_none().then(|| value[SUMMARY].as_str().unwrap_or_default().to_owned())
    }

    /// Returns how many internal children are reserved for scoring the answer.
    fn reserved_for_scoring(&self) -> u32 {
        let clarity = self
            .orchestration
            .as_ref()
            .and_then(|orchestration| orchestration.original_task.blueprint.clarity.as_ref());
        clarity.map_or(0, |clarity| clarity.max_rounds.into())
    }

    /// Returns a rejection if the summary does not cite its subtasks correctly.
    pub(crate) fn uncited_rejection(&self, text: &str) -> Option<Rejection> {
        let orchestration = self.orchestration.as_ref().filter(|it| it.phase == Phase::Summarizing)?;
        let error = format!("$: {}", prompts::citations(text, &orchestration.done_ids())?);
        Some(Rejection::unmet(
            RetryReason::NoAnswer,
            vec![error],
            "The summary did not say where its statements come from",
        ))
    }

    /// Appends the list of subtasks to a summary that does not cite them.
    pub(crate) fn with_sources(&mut self, text: String) -> String {
        let Some(orchestration) = &self.orchestration else { return text };
        let text = prompts::without_made_up(&text, &orchestration.done_ids());
        let listed = prompts::sources(orchestration.done());
        self.usage.flag("sources_added");
        format!("{}\n\n{listed}", text.trim_end())
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

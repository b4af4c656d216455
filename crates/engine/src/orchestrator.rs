//! The work of a team: a model takes the task apart, other agents do the parts, and the model sums up.
//!
//! Each of the model's two jobs is a task of its own in the state: the plan with a contract of ours, the summary with the
//! run's. In between the run waits for its subtasks.

mod prompts;
pub(crate) mod subtasks;

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_types::{
    AgentCard, BackendKind, Blueprint, ChildEnd, ContractOptions, EventBody, RunErrorType, RunStatus, Subtask,
};

use crate::contract::Enforced;
use crate::decide::Rejection;
use crate::error::Error;
use crate::internal_children::{HIRED_MAX, no_more};
use crate::prompt::Why;
use crate::state::{State, Task};

use subtasks::{Stand, SubtaskState, is_ready, read};

/// The name of the tool that a plan is handed in with.
pub(crate) const CREATE_PLAN: &str = "create_execution_plan";

/// The member that holds a summary where it has to be JSON.
const SUMMARY: &str = "summary";

/// The longest such summary, in characters.
const SUMMARY_CHARACTERS_MAX: usize = 900;

/// How often a subtask is tried before the plan is given up.
const TRIES_MAX: u32 = 2;

/// The most plans of a run.
const PLANS_MAX: u32 = 3;

/// The team's work.
#[derive(Debug, Clone)]
pub(crate) struct Orchestra {
    /// What was asked for.
    whole: Task,
    team: Vec<AgentCard>,
    phase: Phase,
    /// Plans that were made.
    plans: u32,
    parts: Vec<SubtaskState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Planning,
    Working,
    SummingUp,
}

impl Orchestra {
    /// What was asked for, in words.
    pub(crate) fn input(&self) -> &String {
        &self.whole.input
    }

    /// What the result has to satisfy in the end.
    pub(crate) fn contract(&self) -> Option<&Enforced> {
        self.whole.contract.as_ref()
    }

    /// The subtasks and what came of them, for whoever has to make do with that: nothing before there are any, nor when
    /// there is a summary to look at.
    pub(crate) fn report(&self) -> Option<Value> {
        let parts: Vec<Value> = self.parts.iter().map(SubtaskState::report).collect();
        (!parts.is_empty() && self.phase != Phase::SummingUp).then(|| json!({"subtasks": parts}))
    }

    fn done(&self) -> impl Iterator<Item = &SubtaskState> {
        self.parts.iter().filter(|part| matches!(part.stand, Stand::Done(_)))
    }

    fn done_ids(&self) -> Vec<&str> {
        self.done().map(|part| part.subtask.id.as_str()).collect()
    }

    /// The subtasks that failed, with the reasons.
    fn failed(&self) -> impl Iterator<Item = (&SubtaskState, &str)> {
        self.parts.iter().filter_map(|part| match &part.stand {
            Stand::Failed(reason) => Some((part, reason.as_str())),
            _ => None,
        })
    }
}

impl State {
    /// Whether the model is asked for a plan.
    pub(crate) fn is_planning(&self) -> bool {
        self.orchestra.as_ref().is_some_and(|orchestra| orchestra.phase == Phase::Planning)
    }

    pub(crate) fn begin_orchestra(&mut self, team: &[AgentCard]) -> Result<(), Error> {
        let Some(whole) = self.task.clone() else {
            return Err(Error::Journal("an attempt has no run or no backend"));
        };
        if team.is_empty() {
            let message = "there is nobody to give subtasks to: `agents` names no agent that there is and that takes a prompt";
            self.cut_short(RunErrorType::ToolFailed, message.to_owned());
            return Ok(());
        }
        self.orchestra = Some(Box::new(Orchestra {
            whole,
            team: team.to_vec(),
            phase: Phase::Planning,
            plans: 0,
            parts: Vec::new(),
        }));
        self.ask_for_plan()
    }

    fn ask_for_plan(&mut self) -> Result<(), Error> {
        let Some(orchestra) = &mut self.orchestra else { return Ok(()) };
        orchestra.phase = Phase::Planning;
        let done: Vec<Subtask> = orchestra.done().map(|part| part.subtask.clone()).collect();
        let narrowed = subtasks::under_grammar(&orchestra.team, &done, orchestra.parts.len());
        let whole = &orchestra.whole;
        let blueprint = Blueprint {
            cites: Vec::new(),
            changes: Vec::new(),
            checks: Vec::new(),
            ..(*whole.blueprint).clone()
        };
        let task = Task {
            blueprint: Arc::new(blueprint),
            contract: Some(Enforced::plan(subtasks::schema(&orchestra.team), done)?),
            parameters: whole.parameters.clone(),
            input: prompts::planning(&whole.input, &orchestra.team, &orchestra.parts),
            under_grammar: Some(narrowed),
        };
        self.task = Some(task);
        self.climb(self.rung.index);
        Ok(())
    }

    /// A plan is there: what can begin begins.
    pub(crate) fn carry_out(&mut self, plan: &Value) {
        let Some(orchestra) = &mut self.orchestra else { return };
        // What was wrong with a plan is of no interest to whoever reads the result.
        self.usage.begin_anew();
        let failed: Vec<String> = orchestra
            .failed()
            .map(|(part, reason)| {
                format!("{} ({}): {}", part.subtask.id, part.subtask.agent, reason.replace("\n- ", "; "))
            })
            .collect();
        orchestra.phase = Phase::Working;
        orchestra.plans += 1;
        orchestra.parts.retain(|part| matches!(part.stand, Stand::Done(_)));
        let mut subtasks = read(plan);
        // What is done already and planned once more stays done.
        subtasks.retain(|subtask| !orchestra.parts.iter().any(|part| part.subtask.id == subtask.id));
        orchestra.parts.extend(subtasks.iter().cloned().map(SubtaskState::new));
        let reason = (!failed.is_empty()).then(|| failed.join("; "));
        self.notes.push_back(EventBody::PlanCreated { round: orchestra.plans, reason, subtasks });
        self.go_on();
    }

    /// Starts what can begin, and draws the consequences where nothing works any more.
    fn go_on(&mut self) {
        let most = HIRED_MAX.saturating_sub(self.scorings());
        let Some(orchestra) = &mut self.orchestra else { return };
        let mut starts = self.hires;
        let mut ready: Vec<usize> =
            (0..orchestra.parts.len()).filter(|index| is_ready(&orchestra.parts, *index)).collect();
        ready.sort_by_key(|index| orchestra.parts[*index].subtask.priority);
        let mut asked = Vec::new();
        for index in ready {
            if starts >= most {
                orchestra.parts[index].stand = Stand::Failed(no_more());
                continue;
            }
            starts += 1;
            let prompt = prompts::subtask(&orchestra.whole.input, &orchestra.parts, index);
            let part = &mut orchestra.parts[index];
            part.tries += 1;
            // A plan may use the name of a subtask again that failed under another.
            let call_id = format!("{}.{}.{}", orchestra.plans, part.subtask.id, part.tries);
            part.stand = Stand::Working(call_id.clone());
            asked.push((call_id, part.subtask.agent.clone(), json!({"prompt": prompt})));
        }
        for (call_id, agent, parameters) in asked {
            self.hire(call_id, CREATE_PLAN, &agent, parameters);
        }
        if self.hired.is_empty() {
            self.settle();
        }
    }

    /// A subtask was done, or could not be.
    pub(crate) fn subtask_ended(&mut self, call_id: &str, end: Result<&ChildEnd, String>) {
        let Some(orchestra) = &mut self.orchestra else { return };
        let is_it = |part: &&mut SubtaskState| matches!(&part.stand, Stand::Working(call) if call == call_id);
        let Some(part) = orchestra.parts.iter_mut().find(is_it) else { return };
        // Whoever was stopped on purpose is not sent again.
        let is_stopped = matches!(end, Ok(end) if end.status == RunStatus::Stopped);
        part.stand = match end.and_then(ChildEnd::done) {
            Ok(result) => Stand::Done(result),
            Err(reason) if is_stopped => Stand::Failed(reason),
            Err(reason) if part.tries < TRIES_MAX => Stand::Waiting(Some(reason)),
            Err(reason) => Stand::Failed(reason),
        };
        self.go_on();
    }

    /// Nothing works any more: all is done, another plan may help, or nothing does.
    fn settle(&mut self) {
        let Some(orchestra) = &self.orchestra else { return };
        if orchestra.failed().next().is_none() {
            return self.sum_up();
        }
        let may_plan = orchestra.plans < PLANS_MAX && self.hires + self.scorings() < HIRED_MAX;
        if may_plan {
            if let Err(error) = self.ask_for_plan() {
                self.end(RunErrorType::ToolFailed, error.to_string());
            }
            return;
        }
        let failed: Vec<(String, String)> = orchestra
            .failed()
            .map(|(part, reason)| {
                (format!("'{}' ({})", part.subtask.id, part.subtask.agent), reason.to_owned())
            })
            .collect();
        let names: Vec<&str> = failed.iter().map(|(name, _)| name.as_str()).collect();
        let plans = match orchestra.plans {
            1 => "1 plan".to_owned(),
            plans => format!("{plans} plans"),
        };
        let message = match orchestra.failed().all(|(_, reason)| reason == no_more()) {
            true => format!("{} could not begin: {}", names.join(", "), no_more()),
            false => format!("{} failed, and {plans} did not help", names.join(", ")),
        };
        let errors = failed.iter().map(|(name, reason)| format!("$: {name}: {reason}")).collect();
        self.fail(RunErrorType::ToolFailed, message, errors);
    }

    /// Asks for the answer to all of it.
    fn sum_up(&mut self) {
        let is_small = self.backend().is_some_and(|backend| backend.small);
        let is_embedded = self.backend().is_some_and(|backend| backend.kind == BackendKind::Embedded);
        let Some(orchestra) = &mut self.orchestra else { return };
        orchestra.phase = Phase::SummingUp;
        let whole = &orchestra.whole;
        let input = prompts::summary(&whole.input, &orchestra.parts, whole.contract.is_none(), is_small);
        // Whoever sums up has changed nothing: that is for the others to report.
        let blueprint = Blueprint { changes: Vec::new(), ..(*whole.blueprint).clone() };
        let mut task = Task { input, blueprint: Arc::new(blueprint), ..whole.clone() };
        if task.contract.is_none() && is_embedded {
            task.contract = bounded_text();
        }
        self.task = Some(task);
        self.climb(self.rung.index);
    }

    /// The text of a summary that was asked for as JSON, so that it comes to an end.
    pub(crate) fn summary_in(&self, value: &Value) -> Option<String> {
        let orchestra = self.orchestra.as_ref().filter(|it| it.phase == Phase::SummingUp)?;
        orchestra.contract().is_none().then(|| value[SUMMARY].as_str().unwrap_or_default().to_owned())
    }

    /// Agents that have to be left for scoring the answer.
    fn scorings(&self) -> u32 {
        let clarity =
            self.orchestra.as_ref().and_then(|orchestra| orchestra.whole.blueprint.clarity.as_ref());
        clarity.map_or(0, |clarity| clarity.max_rounds.into())
    }

    /// What is wrong with a summary that does not say which subtask its statements come from.
    pub(crate) fn uncited(&self, text: &str) -> Option<Rejection> {
        let orchestra = self.orchestra.as_ref().filter(|it| it.phase == Phase::SummingUp)?;
        let error = format!("$: {}", prompts::citations(text, &orchestra.done_ids())?);
        Some(Rejection::unmet(
            Why::NoAnswer,
            vec![error],
            "The summary did not say where its statements come from",
        ))
    }

    /// The same summary with the subtasks below it, for a model that does not name them.
    pub(crate) fn with_sources(&mut self, text: String) -> String {
        let Some(orchestra) = &self.orchestra else { return text };
        let text = prompts::without_made_up(&text, &orchestra.done_ids());
        let listed = prompts::sources(orchestra.done());
        self.usage.flag("sources_added");
        format!("{}\n\n{listed}", text.trim_end())
    }
}

/// A contract for a text that a grammar brings to an end: left alone, a model that needs one goes on until it is cut off.
fn bounded_text() -> Option<Enforced> {
    let schema = json!({
        "type": "object",
        "required": [SUMMARY],
        "properties": {SUMMARY: {"type": "string", "minLength": 1, "maxLength": SUMMARY_CHARACTERS_MAX}},
    });
    Enforced::ours(SUMMARY, schema, ContractOptions::default()).ok()
}

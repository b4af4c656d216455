//! Children that the engine starts itself: specialists for subtasks, and the agent that scores
//! answers.

use serde_json::Value;
use slipform_types::{ExecutionMode, SessionId};

use crate::action::{Action, Child, ChildTask};
use crate::orchestrator::{CREATE_PLAN, Orchestration, SubtaskStart, SubtasksEnd};

/// The maximum number of internal children per run. The coordinator refuses to start more.
pub(crate) const INTERNAL_CHILDREN_MAX: u32 = 16;

/// Returns the error message for a run that reached the limit.
pub(crate) fn children_limit_message() -> String {
    format!("one run may start no more than {INTERNAL_CHILDREN_MAX} agents")
}

/// The children that the engine started for its own purposes, not at the request of a model.
#[derive(Debug, Clone, Default)]
pub(crate) struct Children {
    /// Children that are queued or running.
    internal: Vec<InternalChild>,
    /// The number of children started in this run, including those that ended.
    started: u32,
    /// Present for orchestrators once their first attempt has begun.
    pub(crate) orchestration: Option<Box<Orchestration>>,
}

/// An internal child that is running or not started yet.
#[derive(Debug, Clone)]
struct InternalChild {
    child: Child,
    /// `None` until the child has started.
    session_id: Option<SessionId>,
}

impl Children {
    /// Queues a child. The run waits for its end.
    pub(crate) fn start(&mut self, call_id: String, tool_name: &str, agent_name: &str, parameters: Value) {
        let child = Child {
            call_id,
            tool_name: tool_name.to_owned(),
            agent_name: agent_name.to_owned(),
            task: ChildTask::Start { parameters },
            execution_mode: ExecutionMode::Sync,
            output_schema: None,
            output_schema_name: None,
        };
        self.started += 1;
        self.internal.push(InternalChild { child, session_id: None });
    }

    /// Returns the number of children started in this run, including those that ended.
    pub(crate) fn started(&self) -> u32 {
        self.started
    }

    /// Returns whether the run waits for no child.
    pub(crate) fn is_idle(&self) -> bool {
        self.internal.is_empty()
    }

    /// Returns the action that the children require: start the next one, or wait for those that run.
    pub(crate) fn action(&self) -> Option<Action> {
        match self.internal.iter().find(|internal| internal.session_id.is_none()) {
            Some(internal) => Some(Action::Delegate(Box::new(internal.child.clone()))),
            None => (!self.is_idle()).then_some(Action::Park),
        }
    }

    /// Records the session of a child that has started. Returns `false` if the call is not of an
    /// internal child.
    pub(crate) fn record_session(&mut self, call_id: &str, session_id: &SessionId) -> bool {
        let Some(internal) = self.internal.iter_mut().find(|internal| internal.child.call_id == call_id)
        else {
            return false;
        };
        internal.session_id = Some(session_id.clone());
        true
    }

    /// Removes a child that could not be started. Returns whether there was one.
    pub(crate) fn remove_refused(&mut self, call_id: &str) -> bool {
        self.take(|internal| internal.child.call_id == call_id).is_some()
    }

    /// Removes a child that has ended and returns the call that started it.
    pub(crate) fn remove_ended(&mut self, session_id: &SessionId) -> Option<String> {
        let internal = self.take(|internal| internal.session_id.as_ref() == Some(session_id))?;
        Some(internal.child.call_id)
    }

    fn take(&mut self, matches: impl Fn(&InternalChild) -> bool) -> Option<InternalChild> {
        let index = self.internal.iter().position(matches)?;
        Some(self.internal.remove(index))
    }

    /// Starts every subtask that is ready. Returns what follows if none is running.
    pub(crate) fn start_ready_subtasks(&mut self) -> Option<SubtasksEnd> {
        let starts = self.orchestration.as_mut()?.start_ready(self.started);
        for SubtaskStart { call_id, agent, parameters } in starts {
            self.start(call_id, CREATE_PLAN, &agent, parameters);
        }
        self.is_idle().then(|| Some(self.orchestration.as_ref()?.subtasks_end(self.started)))?
    }

    /// Returns whether the model is asked for a subtask plan.
    pub(crate) fn is_planning(&self) -> bool {
        self.orchestration.as_ref().is_some_and(|orchestration| orchestration.is_planning())
    }
}

//! Agents that the engine itself has work for: specialists for subtasks, and someone who says how clear an answer is.

use serde_json::Value;
use slipform_types::{ChildEnd, ExecutionMode, SessionId};

use crate::action::{Child, ChildTask};
use crate::state::State;

/// The most agents of one run. No coordinator starts more for one.
pub(crate) const HIRED_MAX: u32 = 16;

/// Why there is no other.
pub(crate) fn no_more() -> String {
    format!("one run may start no more than {HIRED_MAX} agents")
}

/// An agent that is to start, or that works.
#[derive(Debug, Clone)]
pub(crate) struct Hired {
    pub(crate) child: Child,
    /// Its session, once it works.
    pub(crate) session_id: Option<SessionId>,
}

impl State {
    /// Has an agent do something. The run waits for it.
    pub(crate) fn hire(&mut self, call_id: String, tool_name: &str, agent_name: &str, parameters: Value) {
        let child = Child {
            call_id,
            tool_name: tool_name.to_owned(),
            agent_name: agent_name.to_owned(),
            task: ChildTask::Start { parameters },
            execution_mode: ExecutionMode::Sync,
            output_schema: None,
            output_schema_name: None,
        };
        self.hires += 1;
        self.hired.push(Hired { child, session_id: None });
    }

    /// The agent of this description, which has no work any more.
    pub(crate) fn dismiss(&mut self, is_it: impl Fn(&Hired) -> bool) -> Option<Hired> {
        let index = self.hired.iter().position(is_it)?;
        Some(self.hired.remove(index))
    }

    /// An agent has done its work, or could not.
    pub(crate) fn hired_ended(&mut self, hired: &Hired, end: Result<&ChildEnd, String>) {
        match self.clearing.is_scored_by(&hired.child.call_id) {
            true => self.scored(end),
            false => self.subtask_ended(&hired.child.call_id, end),
        }
    }
}

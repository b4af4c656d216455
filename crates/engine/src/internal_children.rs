//! Children that the engine starts itself: specialists for subtasks, and the agent that scores
//! answers.

use serde_json::Value;
use slipform_types::{ChildEnd, ExecutionMode, SessionId};

use crate::action::{Child, ChildTask};
use crate::state::State;

/// The maximum number of internal children per run. The coordinator refuses to start more.
pub(crate) const INTERNAL_CHILDREN_MAX: u32 = 16;

/// Returns the error message for a run that reached the limit.
pub(crate) fn children_limit_message() -> String {
    format!("one run may start no more than {INTERNAL_CHILDREN_MAX} agents")
}

/// An internal child that is running or not started yet.
#[derive(Debug, Clone)]
pub(crate) struct InternalChild {
    pub(crate) child: Child,
    /// `None` until the child has started.
    pub(crate) session_id: Option<SessionId>,
}

impl State {
    /// Queues an internal child. The run waits for its end.
    pub(crate) fn start_internal_child(
        &mut self,
        call_id: String,
        tool_name: &str,
        agent_name: &str,
        parameters: Value,
    ) {
        let child = Child {
            call_id,
            tool_name: tool_name.to_owned(),
            agent_name: agent_name.to_owned(),
            task: ChildTask::Start { parameters },
            execution_mode: ExecutionMode::Sync,
            output_schema: None,
            output_schema_name: None,
        };
        self.internal_children_started += 1;
        self.internal_children.push(InternalChild { child, session_id: None });
    }

    /// Removes and returns the first matching child.
    pub(crate) fn take_internal_child(
        &mut self,
        matches: impl Fn(&InternalChild) -> bool,
    ) -> Option<InternalChild> {
        let index = self.internal_children.iter().position(matches)?;
        Some(self.internal_children.remove(index))
    }

    /// Passes the end of an internal child to the part of the engine that started it.
    pub(crate) fn handle_internal_child_end(
        &mut self,
        internal_child: &InternalChild,
        end: Result<&ChildEnd, String>,
    ) {
        if self.clarity_state.is_scoring_call(&internal_child.child.call_id) {
            self.handle_score(end);
        } else {
            self.handle_subtask_end(&internal_child.child.call_id, end);
        }
    }
}

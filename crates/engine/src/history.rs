//! The history of a session: its earlier runs and the children it started.

use slipform_types::SessionId;

use crate::conversation::PastRun;
use crate::delegation::KnownChild;

/// The part of the state that outlives a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// The earlier runs of the session.
    pub(crate) past_runs: Vec<PastRun>,
    /// The children that this session has started at the request of a model. The one that was
    /// addressed last is at the end.
    pub(crate) known_children: Vec<KnownChild>,
}

impl History {
    /// Records that a child was started or resumed.
    pub(crate) fn record_child(&mut self, session_id: &SessionId, agent_name: &str) {
        self.known_children.retain(|child| child.session_id != *session_id);
        self.known_children
            .push(KnownChild { session_id: session_id.clone(), agent_name: agent_name.to_owned() });
    }
}

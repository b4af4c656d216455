//! What is going on: sessions, who waits for whom, and what is to be worked on next.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use formwork_engine::{Child, ChildTask, State};
use formwork_types::{ChildEnd, ExecutionMode, Outcome, RunId, SessionId};

use crate::claim::Claim;

/// How many agents may stand above one another. Deeper trees cost more than anyone meant.
const DEPTH_MAX: usize = 5;

/// The most children that one run may start.
const CHILDREN_MAX: usize = 16;

/// The most runs that one submission may lead to. Callbacks come after it all the same: what was found is told.
const RUNS_MAX: usize = 200;

/// Everything that is going on.
#[derive(Default)]
pub(super) struct Book {
    sessions: HashMap<SessionId, Session>,
    queue: VecDeque<Arc<Claim>>,
    /// Runs that wait for children.
    parked: HashMap<RunId, Arc<Claim>>,
    /// Children that have ended and whose parent has not heard of it, by the parent's run.
    arrived: HashMap<RunId, Vec<ChildEnd>>,
    /// Who hears of the end of a run.
    parents: HashMap<RunId, Parent>,
    /// Children that each run has started.
    started: HashMap<RunId, usize>,
    runs: usize,
}

/// A session.
struct Session {
    agent_name: String,
    /// The agents above it, the first one first, and itself.
    line: Vec<String>,
    parent: Option<SessionId>,
    is_busy: bool,
    /// Children whose ends it is to be resumed with.
    callbacks: Vec<ChildEnd>,
    last: Option<(Arc<Claim>, Outcome)>,
}

/// Who hears of the end of a run.
struct Parent {
    session_id: SessionId,
    run_id: RunId,
    mode: ExecutionMode,
}

impl Book {
    /// A run of a session of its own.
    pub(super) fn begin(&mut self, claim: Arc<Claim>) {
        let line = vec![claim.blueprint.name.clone()];
        self.open(&claim, line, None);
        self.enqueue(claim);
    }

    fn open(&mut self, claim: &Claim, line: Vec<String>, parent: Option<SessionId>) {
        let agent_name = claim.blueprint.name.clone();
        let session = Session { agent_name, line, parent, is_busy: true, callbacks: Vec::new(), last: None };
        self.sessions.insert(claim.session_id.clone(), session);
    }

    fn enqueue(&mut self, claim: Arc<Claim>) {
        self.runs += 1;
        self.queue.push_back(claim);
    }

    /// What is to be worked on next.
    pub(super) fn next(&mut self) -> Option<Arc<Claim>> {
        self.queue.pop_front()
    }

    /// Keeps a place for a child, or says why there is none. Between this and its beginning others may come.
    pub(super) fn reserve(&mut self, parent: &Claim, child: &Child) -> Result<(), String> {
        self.may_start(parent, child)?;
        self.runs += 1;
        *self.started.entry(parent.run_id.clone()).or_default() += 1;
        self.occupy(child, true);
        Ok(())
    }

    /// Gives a place back whose child was not admitted.
    pub(super) fn release(&mut self, parent: &Claim, child: &Child) {
        self.runs -= 1;
        if let Some(started) = self.started.get_mut(&parent.run_id) {
            *started -= 1;
        }
        self.occupy(child, false);
    }

    /// A session that is to go on is nobody else's meanwhile.
    fn occupy(&mut self, child: &Child, is_busy: bool) {
        if let ChildTask::Resume { session_id, .. } = &child.task
            && let Some(session) = self.sessions.get_mut(session_id)
        {
            session.is_busy = is_busy;
        }
    }

    fn may_start(&self, parent: &Claim, child: &Child) -> Result<(), String> {
        let name = &child.agent_name;
        if self.runs >= RUNS_MAX {
            return Err(format!(
                "no more than {RUNS_MAX} runs may come of one task, and there have been as many"
            ));
        }
        if self.started.get(&parent.run_id).is_some_and(|started| *started >= CHILDREN_MAX) {
            return Err(format!("one run may start no more than {CHILDREN_MAX} agents, and this one has"));
        }
        if let ChildTask::Resume { session_id, .. } = &child.task {
            let session = self.sessions.get(session_id);
            let session = session.filter(|session| session.parent.as_ref() == Some(&parent.session_id));
            let session = session.ok_or_else(|| format!("there is no session {session_id} of this agent"))?;
            return match session.is_busy {
                true => Err(format!("the session {session_id} is still busy; wait for its result first")),
                false => Ok(()),
            };
        }
        let line =
            self.sessions.get(&parent.session_id).map(|session| session.line.as_slice()).unwrap_or_default();
        if line.contains(name) {
            let way = line.join(" > ");
            return Err(format!(
                "the agent '{name}' is already at work above this one ({way}): it cannot be called"
            ));
        }
        if line.len() >= DEPTH_MAX {
            return Err(format!("agents may be nested {DEPTH_MAX} deep, and '{name}' would be one more"));
        }
        Ok(())
    }

    /// A run for another one.
    pub(super) fn begin_child(&mut self, parent: &Claim, mode: ExecutionMode, claim: Arc<Claim>) {
        let hears = Parent { session_id: parent.session_id.clone(), run_id: parent.run_id.clone(), mode };
        self.parents.insert(claim.run_id.clone(), hears);
        match self.sessions.get_mut(&claim.session_id) {
            Some(session) => session.is_busy = true,
            None => {
                let above = self.sessions.get(&parent.session_id).map(|session| session.line.clone());
                let mut line = above.unwrap_or_default();
                line.push(claim.blueprint.name.clone());
                self.open(&claim, line, Some(parent.session_id.clone()));
            }
        }
        self.queue.push_back(claim);
    }

    /// A run that goes on with a session because children have ended.
    pub(super) fn resume(&mut self, claim: Arc<Claim>) {
        if let Some(session) = self.sessions.get_mut(&claim.session_id) {
            session.is_busy = true;
        }
        self.enqueue(claim);
    }

    pub(super) fn park(&mut self, claim: Arc<Claim>) {
        self.parked.insert(claim.run_id.clone(), claim);
    }

    /// A run has ended: its session is free, and its parent is to hear of it.
    pub(super) fn end(&mut self, claim: Arc<Claim>, outcome: Outcome) {
        let end = ended(&claim, &outcome);
        self.arrived.remove(&claim.run_id);
        if let Some(parent) = self.parents.remove(&claim.run_id) {
            match parent.mode {
                ExecutionMode::Sync => self.arrived.entry(parent.run_id).or_default().push(end),
                ExecutionMode::AsyncCallback => {
                    if let Some(session) = self.sessions.get_mut(&parent.session_id) {
                        session.callbacks.push(end);
                    }
                }
                ExecutionMode::AsyncPoll => {}
            }
        }
        if let Some(session) = self.sessions.get_mut(&claim.session_id) {
            session.is_busy = false;
            // Its tools are let go of: an MCP server has no business after the run that it was started for.
            let claim = Claim { tools: Arc::default(), ..(*claim).clone() };
            session.last = Some((Arc::new(claim), outcome));
        }
    }

    /// Parked runs whose children have ended, with their ends. A run hears of its children only while nobody works on
    /// it: whoever does has folded its journal already.
    pub(super) fn ready(&mut self) -> Vec<(Arc<Claim>, Vec<ChildEnd>)> {
        let runs: Vec<RunId> =
            self.arrived.keys().filter(|run| self.parked.contains_key(*run)).cloned().collect();
        runs.iter().filter_map(|run| Some((self.parked.remove(run)?, self.arrived.remove(run)?))).collect()
    }

    /// A run that was parked is to be worked on again.
    pub(super) fn requeue(&mut self, claim: Arc<Claim>) {
        self.queue.push_back(claim);
    }

    /// The next session that is free and has callbacks, with them.
    pub(super) fn callback(&mut self) -> Option<(SessionId, String, Vec<ChildEnd>)> {
        let is_free = |session: &Session| !session.is_busy && !session.callbacks.is_empty();
        let (id, session) = self.sessions.iter_mut().find(|(_, session)| is_free(session))?;
        Some((id.clone(), session.agent_name.clone(), std::mem::take(&mut session.callbacks)))
    }

    /// How the last run of a session ended.
    pub(super) fn outcome(&mut self, session: &SessionId) -> Option<(Arc<Claim>, Outcome)> {
        self.sessions.get_mut(session)?.last.take()
    }
}

fn ended(claim: &Claim, outcome: &Outcome) -> ChildEnd {
    let (result_text, result_data, error) = match outcome {
        Outcome::Completed(success) => (success.result_text.clone(), success.result_data.clone(), None),
        Outcome::Failed(failure) => (None, None, Some(Box::new(failure.error.clone()))),
    };
    ChildEnd {
        agent_name: claim.blueprint.name.clone(),
        child_session_id: claim.session_id.clone(),
        child_run_id: claim.run_id.clone(),
        status: State::status(outcome),
        result_text,
        result_data,
        error,
    }
}

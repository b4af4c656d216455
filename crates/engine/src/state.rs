//! A journal, folded: all that is needed to say what comes next.

use std::collections::VecDeque;

use formwork_types::{
    BackendInfo, Blueprint, Body, CallError, Contract, Event, Outcome, Reply, RunErrorType, RunStatus,
    TierBackend,
};

use crate::action::{Action, ModelCall};
use crate::contract::Enforced;
use crate::error::Error;
use crate::ledger::Ledger;
use crate::plan::Planned;
use crate::way::Way;

/// Retries for a run without a contract: an empty or cut-off answer is asked for once more.
pub(crate) const RETRIES_WITHOUT_CONTRACT: u32 = 1;

/// The state of a run.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub(crate) task: Option<Task>,
    pub(crate) ladder: Vec<TierBackend>,
    pub(crate) rung: Rung,
    pub(crate) ledger: Ledger,
    pub(crate) plan: Option<Planned>,
    pub(crate) notes: VecDeque<Body>,
    pub(crate) outcome: Option<Outcome>,
    ended: bool,
}

/// What the run is about.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) blueprint: Blueprint,
    pub(crate) contract: Option<Enforced>,
    pub(crate) input: String,
}

/// Where the run stands on its ladder.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rung {
    pub(crate) index: usize,
    pub(crate) ways: Vec<Way>,
    pub(crate) at: usize,
    /// Whether a patch correction was asked for and did not help.
    pub(crate) patched: bool,
    /// Whether a reminder was given.
    pub(crate) reminded: bool,
}

impl State {
    /// Folds a whole journal.
    pub fn from_journal<'e>(events: impl IntoIterator<Item = &'e Event>) -> Result<State, Error> {
        let mut state = State::default();
        for event in events {
            state.fold(&event.body)?;
        }
        Ok(state)
    }

    /// Folds one more event.
    pub fn fold(&mut self, body: &Body) -> Result<(), Error> {
        if self.ended {
            return Err(Error::Journal("an event follows run_completed"));
        }
        match body {
            Body::RunStart { blueprint, contract, input, .. } => {
                self.start(blueprint, contract.as_deref(), input)
            }
            Body::AttemptStarted { ladder } => self.attempt(ladder),
            Body::Message { content, reply, .. } => {
                let reply = Reply { text: content.clone(), ..(**reply).clone() };
                self.replied(&reply)
            }
            Body::CallFailed { error } => self.call_failed(error),
            // Whoever stopped the run may have come before the runner's last word on it.
            Body::ValidationFailed { .. } | Body::Escalated { .. } if self.was_cut_short() => Ok(()),
            Body::ValidationFailed { .. } | Body::Escalated { .. } => self
                .notes
                .pop_front()
                .map(|_| ())
                .ok_or(Error::Journal("a decision was noted that was never made")),
            Body::DeadlineReached => {
                let limit = self.task.as_ref().and_then(|task| task.blueprint.limits.timeout_seconds);
                let limit = limit.map(|seconds| format!(" of {seconds} s")).unwrap_or_default();
                self.cut_short(RunErrorType::Timeout, format!("the run's time limit{limit} was reached"));
                Ok(())
            }
            Body::StopRequested => {
                self.cut_short(RunErrorType::Stopped, "the run was stopped".to_owned());
                Ok(())
            }
            Body::Result { .. } => Ok(()),
            Body::RunCompleted { .. } => {
                self.ended = true;
                Ok(())
            }
        }
    }

    fn start(
        &mut self,
        blueprint: &Blueprint,
        contract: Option<&Contract>,
        input: &str,
    ) -> Result<(), Error> {
        if self.task.is_some() {
            return Err(Error::Journal("a run starts twice"));
        }
        let contract = contract.map(Enforced::compile).transpose()?;
        self.task = Some(Task { blueprint: blueprint.clone(), contract, input: input.to_owned() });
        Ok(())
    }

    /// An attempt begins. Later attempts find the run as the first one left it.
    fn attempt(&mut self, ladder: &[TierBackend]) -> Result<(), Error> {
        if !self.ladder.is_empty() {
            return Ok(());
        }
        if self.task.is_none() || ladder.is_empty() {
            return Err(Error::Journal("an attempt has no run or no backend"));
        }
        self.ladder = ladder.to_vec();
        self.climb(0);
        Ok(())
    }

    fn replied(&mut self, reply: &Reply) -> Result<(), Error> {
        let Some(planned) = self.plan.take() else {
            return Err(Error::Journal("a reply came to no question"));
        };
        self.account(&planned);
        self.ledger.replied(reply);
        if self.was_cut_short() {
            // It was under way when the run was stopped: paid for, kept, and not acted upon.
            self.refresh_failure();
        } else {
            self.decide_on_reply(planned.plan, reply);
        }
        Ok(())
    }

    fn call_failed(&mut self, error: &CallError) -> Result<(), Error> {
        let Some(planned) = self.plan.take() else {
            return Err(Error::Journal("a call failed that was never made"));
        };
        self.account(&planned);
        if self.was_cut_short() {
            self.refresh_failure();
        } else {
            self.decide_on_failure(planned.plan, error);
        }
        Ok(())
    }

    /// Whether the run ended from outside, perhaps in the middle of a call.
    fn was_cut_short(&self) -> bool {
        self.outcome.is_some()
    }

    fn account(&mut self, planned: &Planned) {
        self.ledger.called();
        self.ledger.strategy = planned.plan.way.strategy();
        if let (Some(task), Some(backend)) = (&self.task, self.backend()) {
            let unenforced = planned.prepared(task, backend).unenforced.clone();
            self.ledger.unenforced(unenforced);
        }
    }

    /// The backend of the current rung.
    pub(crate) fn backend(&self) -> Option<&BackendInfo> {
        self.ladder.get(self.rung.index).map(|tier| &tier.backend)
    }

    pub(crate) fn contract(&self) -> Option<&Enforced> {
        self.task.as_ref()?.contract.as_ref()
    }

    /// The most retries on each rung.
    pub(crate) fn retries_max(&self) -> u32 {
        self.contract().map_or(RETRIES_WITHOUT_CONTRACT, |contract| contract.options().max_retries)
    }

    /// How the run ended, once it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Requests made so far.
    pub fn calls(&self) -> u32 {
        self.ledger.calls
    }

    /// The status that the outcome means for the run.
    pub fn status(outcome: &Outcome) -> RunStatus {
        match outcome {
            Outcome::Completed(_) => RunStatus::Completed,
            Outcome::Failed(failure) if failure.error.kind == RunErrorType::Stopped => RunStatus::Stopped,
            Outcome::Failed(_) => RunStatus::Failed,
        }
    }
}

/// What comes next, or nothing when the run has ended or no attempt has begun.
pub fn next(state: &State) -> Option<Action> {
    if state.ended {
        return None;
    }
    if let Some(note) = state.notes.front() {
        return Some(Action::Note(Box::new(note.clone())));
    }
    if let Some(outcome) = &state.outcome {
        return Some(Action::Finish(Box::new(outcome.clone())));
    }
    let (task, planned, backend) = (state.task.as_ref()?, state.plan.as_ref()?, state.backend()?);
    Some(Action::Call(Box::new(ModelCall {
        backend: backend.name.clone(),
        number: state.ledger.rungs.last().map_or(0, |rung| rung.calls) + 1,
        of: state.retries_max() + 1,
        asked: planned.plan.describe(),
        request: planned.prepared(task, backend).request.clone(),
    })))
}

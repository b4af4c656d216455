//! The decisions that the runner has to append: decision events, then the outcome.

use std::collections::VecDeque;

use slipform_types::{EventBody, Outcome};

use crate::error::Error;

/// The decisions of a run that are not in its journal yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decisions {
    notes: VecDeque<EventBody>,
    outcome: Option<Outcome>,
    has_ended: bool,
}

impl Decisions {
    /// Queues a decision event.
    pub(crate) fn note(&mut self, body: EventBody) {
        self.notes.push_back(body);
    }

    /// Returns the decision event to append next.
    pub(crate) fn next_note(&self) -> Option<&EventBody> {
        self.notes.front()
    }

    /// Removes the first queued event, which must have been appended.
    pub(crate) fn confirm_note(&mut self) -> Result<(), Error> {
        let note = self.notes.pop_front();
        note.map(|_| ()).ok_or(Error::Journal("a decision event without a pending decision"))
    }

    /// Removes the first queued event if it is this one.
    pub(crate) fn remove_note(&mut self, body: &EventBody) {
        if self.notes.front() == Some(body) {
            self.notes.pop_front();
        }
    }

    /// Drops the queued events: the run ends before they are appended.
    pub(crate) fn clear_notes(&mut self) {
        self.notes.clear();
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    pub(crate) fn set_outcome(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    /// Returns whether the run has an outcome. Events that follow it are recorded, not decided on.
    pub(crate) fn has_outcome(&self) -> bool {
        self.outcome.is_some()
    }

    /// Records that `run_completed` was appended.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }
}

//! A word to a computation that is under way: the answer is not wanted any more, or not in time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::Error;

/// Interrupts a model that reads or writes. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    cancelled: Arc<AtomicBool>,
    deadline: Arc<Mutex<Option<Instant>>>,
}

impl Interrupt {
    /// Nobody wants the answer any more.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether somebody still wants it.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Nothing, as long as the answer is wanted and not late.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_cancelled() {
            return Err(Error::Cancelled);
        }
        if self.is_late() { Err(Error::Late) } else { Ok(()) }
    }

    /// From then on the answer comes too late.
    pub fn set_deadline(&self, deadline: Option<Instant>) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
    }

    /// Whether it is too late.
    pub fn is_late(&self) -> bool {
        let deadline = *self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

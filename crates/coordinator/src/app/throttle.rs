//! Limits how often an action runs, across all callers.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time of the last run.
#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<Option<Instant>>);

impl Throttle {
    /// Whether the interval has passed. A caller that receives true must run the action.
    pub(super) fn is_due(&self, interval: Duration) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|at| at.elapsed() >= interval);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

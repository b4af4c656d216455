//! What is done once in a while, however many would do it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When it was last done.
#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<Option<Instant>>);

impl Throttle {
    /// Whether it is time again. Whoever is told so does it.
    pub(super) fn is_time(&self, interval: Duration) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = last.is_none_or(|at| at.elapsed() >= interval);
        if is_time {
            *last = Some(Instant::now());
        }
        is_time
    }
}

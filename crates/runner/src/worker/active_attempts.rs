//! The attempts in progress.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use slipform_api::{AttemptRef, Beat};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::drive::StopSignal;

/// The attempts in progress, each with its stop signal and its task.
#[derive(Default)]
pub(super) struct ActiveAttempts {
    attempts: Mutex<HashMap<AttemptRef, (StopSignal, AbortHandle)>>,
    count: watch::Sender<usize>,
}

impl ActiveAttempts {
    pub(super) fn insert(&self, attempt: AttemptRef, stop: StopSignal, task: AbortHandle) {
        self.change(|attempts| drop(attempts.insert(attempt, (stop, task))));
    }

    pub(super) fn remove(&self, attempt: &AttemptRef) {
        self.change(|attempts| drop(attempts.remove(attempt)));
    }

    pub(super) fn list(&self) -> Vec<AttemptRef> {
        self.attempts().keys().cloned().collect()
    }

    pub(super) fn count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// Waits until at least one attempt is in progress.
    pub(super) async fn wait_for_any(&self) {
        // `self` owns the sender, so waiting cannot fail.
        let _ = self.count.subscribe().wait_for(|count| *count > 0).await;
    }

    /// Applies a heartbeat answer to an attempt. A stale attempt is aborted and removed without a release,
    /// because another attempt owns the run.
    pub(super) fn apply(&self, beat: Beat) {
        let attempt = AttemptRef { run_id: beat.run_id, token: beat.token };
        if beat.stale {
            let mut lost = None;
            self.change(|attempts| lost = attempts.remove(&attempt));
            if let Some((_, task)) = lost {
                tracing::info!(run_id = %attempt.run_id, token = attempt.token, "attempt is stale; aborting it");
                task.abort();
            }
        } else if beat.stop
            && let Some((stop, _)) = self.attempts().get(&attempt)
        {
            stop.request();
        }
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<AttemptRef, (StopSignal, AbortHandle)>)) {
        let mut attempts = self.attempts();
        change(&mut attempts);
        self.count.send_replace(attempts.len());
    }

    fn attempts(&self) -> MutexGuard<'_, HashMap<AttemptRef, (StopSignal, AbortHandle)>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

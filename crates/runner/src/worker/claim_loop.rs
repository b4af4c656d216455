//! Polls the coordinator for assignments.

use std::sync::Arc;
use std::time::Duration;

use slipform_api::{ClaimRequest, Claims};
use tokio::sync::watch;
use tokio::time::Instant;

use super::registration::Registration;
use crate::backoff::Backoff;

/// Longest duration of one long poll. A shutdown waits for the answer, because an assignment in it would be
/// lost until its lease expires; this must be shorter than the shutdown's time limit.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(4);

/// Minimum interval between two polls without assignments, even if the coordinator answers at once.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// A poll that repeats until it yields assignments or the worker shuts down.
pub(super) struct ClaimPoll {
    pub(super) registration: Arc<Registration>,
    pub(super) slots: u32,
    pub(super) wait: Duration,
    pub(super) closing: watch::Receiver<bool>,
}

impl ClaimPoll {
    pub(super) async fn next(mut self) -> Claims {
        let (registration, mut backoff) = (self.registration.clone(), Backoff::default());
        loop {
            let Some(registered) = self.unless_closing(registration.registered()).await else {
                return no_claims();
            };
            let started = Instant::now();
            let wait_ms = self.wait.as_millis().try_into().unwrap_or(u64::MAX);
            let request = ClaimRequest { runner_id: registered.runner_id, slots: self.slots, wait_ms };
            // Await the answer even during a shutdown, because it may contain assignments.
            let pause = match registration.api.claim(&request).await {
                Ok(answer) => {
                    registration.record_success();
                    if !answer.claims.is_empty() {
                        return answer;
                    }
                    backoff = Backoff::default();
                    PAUSE_MIN.saturating_sub(started.elapsed())
                }
                Err(error) => {
                    registration.record_failure(&error);
                    backoff.wait()
                }
            };
            if self.unless_closing(tokio::time::sleep(pause)).await.is_none() {
                return no_claims();
            }
        }
    }

    async fn unless_closing<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            // An error means that the worker was dropped.
            _ = self.closing.wait_for(|is_closing| *is_closing) => None,
            value = future => Some(value),
        }
    }
}

fn no_claims() -> Claims {
    Claims { claims: Vec::new() }
}

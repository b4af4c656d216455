//! Asking for work.

use std::sync::Arc;
use std::time::Duration;

use slipform_api::{ClaimRequest, Claims};
use tokio::sync::watch;
use tokio::time::Instant;

use super::registration::Registration;
use crate::backoff::Backoff;

/// The longest wait for work in one request. A worker that goes home waits for the answer, because the work in it would
/// be lost until its lease expires; it has less time than that for all of it.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(4);

/// The shortest time between two questions that brought nothing, however quickly they are answered.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// A question for work, asked until there is some or none is wanted any more.
pub(super) struct Claiming {
    pub(super) link: Arc<Registration>,
    pub(super) slots: u32,
    pub(super) wait: Duration,
    pub(super) closing: watch::Receiver<bool>,
}

impl Claiming {
    pub(super) async fn next(mut self) -> Claims {
        let (link, mut backoff) = (self.link.clone(), Backoff::default());
        loop {
            let Some(registered) = self.unless_closing(link.registered()).await else { return none() };
            let began = Instant::now();
            let wait_ms = self.wait.as_millis().try_into().unwrap_or(u64::MAX);
            let request = ClaimRequest { runner_id: registered.runner_id, slots: self.slots, wait_ms };
            // Whoever asks stays for the answer, even when none is wanted any more.
            let pause = match link.api.claim(&request).await {
                Ok(answer) => {
                    link.well();
                    if !answer.claims.is_empty() {
                        return answer;
                    }
                    backoff = Backoff::default();
                    PAUSE_MIN.saturating_sub(began.elapsed())
                }
                Err(error) => {
                    link.lost(&error);
                    backoff.wait()
                }
            };
            if self.unless_closing(tokio::time::sleep(pause)).await.is_none() {
                return none();
            }
        }
    }

    async fn unless_closing<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            // A worker that is gone wants nothing either.
            _ = self.closing.wait_for(|is_closing| *is_closing) => None,
            value = future => Some(value),
        }
    }
}

fn none() -> Claims {
    Claims { claims: Vec::new() }
}

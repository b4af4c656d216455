//! How a worker stands with its coordinator: known, or to be introduced again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use slipform_api::{Error, RegisterRequest, Registered, RunnerApi};
use tokio::sync::Mutex;

use crate::backoff::Backoff;

/// The longest wait between two introductions of a worker that was known: as often as it is heard of otherwise. One that
/// holds attempts has to be back before its leases expire.
const AWAY_WAIT_MAX: Duration = Duration::from_secs(1);

/// A worker's standing. Whoever finds it unknown introduces it, and the others wait for that.
pub(super) struct Registration {
    pub(super) api: Arc<dyn RunnerApi>,
    registration_request: Mutex<RegisterRequest>,
    known: Mutex<Option<Registered>>,
    is_lost: AtomicBool,
    /// Whether it was logged that the coordinator is away: once for each time.
    is_away: AtomicBool,
}

impl Registration {
    pub(super) fn new(
        api: Arc<dyn RunnerApi>,
        name: String,
        slots: usize,
        details: Value,
        runner_id: Option<String>,
    ) -> Registration {
        let slots = slots.try_into().unwrap_or(u32::MAX);
        Registration {
            api,
            registration_request: Mutex::new(RegisterRequest { runner_id, name, slots, details }),
            known: Mutex::default(),
            is_lost: AtomicBool::new(false),
            is_away: AtomicBool::new(false),
        }
    }

    /// Introduces the worker for the first time.
    ///
    /// # Errors
    /// When the coordinator understands and does not want it: asking again would not help.
    pub(super) async fn introduce(&self) -> Result<(), crate::Error> {
        let mut backoff = Backoff::default();
        loop {
            match self.register().await {
                Ok(registered) => {
                    self.well();
                    tracing::info!(runner_id = registered.runner_id, "registered");
                    *self.known.lock().await = Some(registered);
                    return Ok(());
                }
                Err(error) if !is_temporary(&error) => return Err(error.into()),
                Err(error) => self.away(&error),
            }
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    /// What the coordinator knows the worker by; introduces it again where it has to.
    pub(super) async fn registered(&self) -> Registered {
        let mut known = self.known.lock().await;
        if self.is_lost.swap(false, Ordering::SeqCst) {
            *known = None;
        }
        let mut backoff = Backoff::after(0, AWAY_WAIT_MAX);
        loop {
            if let Some(registered) = &*known {
                return registered.clone();
            }
            match self.register().await {
                Ok(registered) => {
                    tracing::debug!(runner_id = registered.runner_id, "registered again");
                    *known = Some(registered);
                    continue;
                }
                Err(error) => self.away(&error),
            }
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    async fn register(&self) -> Result<Registered, Error> {
        let mut registration_request = self.registration_request.lock().await;
        let registered = self.api.register(&registration_request).await?;
        registration_request.runner_id = Some(registered.runner_id.clone());
        Ok(registered)
    }

    /// The coordinator did not answer as it should: the worker introduces itself again before it asks anything else.
    pub(super) fn lost(&self, error: &Error) {
        self.away(error);
        self.is_lost.store(true, Ordering::SeqCst);
    }

    /// The coordinator answers.
    pub(super) fn well(&self) {
        if self.is_away.swap(false, Ordering::SeqCst) {
            tracing::info!("the coordinator is back");
        }
    }

    fn away(&self, error: &Error) {
        if !self.is_away.swap(true, Ordering::SeqCst) {
            tracing::warn!(%error, "the coordinator is away; it is asked again");
        }
    }
}

/// Whether a refusal is the coordinator's trouble and not the worker's.
fn is_temporary(error: &Error) -> bool {
    error.code.is_passing() || error.code.status() >= 500
}

//! Registers the worker with its coordinator, again after an outage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use slipform_api::{Error, LeaveRequest, RegisterRequest, Registered, RunnerApi};
use tokio::sync::Mutex;

use crate::backoff::Backoff;

/// Longest delay between two registrations after an outage, as long as the heartbeat interval. A worker with
/// attempts has to register before their leases expire.
const REGISTER_DELAY_MAX: Duration = Duration::from_secs(1);

/// The worker's registration. The first task that finds it lost registers again; other tasks wait.
pub(super) struct Registration {
    pub(super) api: Arc<dyn RunnerApi>,
    request: Mutex<RegisterRequest>,
    current: Mutex<Option<Registered>>,
    is_lost: AtomicBool,
    /// True after the outage was logged, so that each outage is logged once.
    is_outage_logged: AtomicBool,
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
            request: Mutex::new(RegisterRequest { runner_id, name, slots, details }),
            current: Mutex::default(),
            is_lost: AtomicBool::new(false),
            is_outage_logged: AtomicBool::new(false),
        }
    }

    /// Registers the worker for the first time, with retries.
    ///
    /// # Errors
    /// Returns an error when the coordinator rejects the worker permanently.
    pub(super) async fn register_first(&self) -> Result<(), crate::Error> {
        let mut backoff = Backoff::default();
        loop {
            match self.register().await {
                Ok(registered) => {
                    self.record_success();
                    tracing::info!(runner_id = registered.runner_id, "registered");
                    *self.current.lock().await = Some(registered);
                    return Ok(());
                }
                Err(error) if !is_temporary(&error) => return Err(error.into()),
                Err(error) => self.log_outage(&error),
            }
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    /// Returns the registration, after registering again if it was lost.
    pub(super) async fn registered(&self) -> Registered {
        let mut current = self.current.lock().await;
        if self.is_lost.swap(false, Ordering::SeqCst) {
            *current = None;
        }
        let mut backoff = Backoff::after(0, REGISTER_DELAY_MAX);
        loop {
            if let Some(registered) = &*current {
                return registered.clone();
            }
            match self.register().await {
                Ok(registered) => {
                    tracing::debug!(runner_id = registered.runner_id, "registered again");
                    *current = Some(registered);
                    continue;
                }
                Err(error) => self.log_outage(&error),
            }
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    async fn register(&self) -> Result<Registered, Error> {
        let mut request = self.request.lock().await;
        let registered = self.api.register(&request).await?;
        request.runner_id = Some(registered.runner_id.clone());
        Ok(registered)
    }

    /// Removes the worker from the list of runners. A failure has no effect: the worker disappears from the list after a
    /// while.
    pub(super) async fn leave(&self) {
        let Some(registered) = self.current.lock().await.take() else { return };
        let request = LeaveRequest { runner_id: registered.runner_id };
        if let Err(error) = self.api.leave(&request).await {
            tracing::debug!(%error, "could not leave the list of runners");
        }
    }

    /// Records a failed request: the worker registers again before its next request.
    pub(super) fn record_failure(&self, error: &Error) {
        self.log_outage(error);
        self.is_lost.store(true, Ordering::SeqCst);
    }

    /// Records a successful request.
    pub(super) fn record_success(&self) {
        if self.is_outage_logged.swap(false, Ordering::SeqCst) {
            tracing::info!("coordinator is reachable again");
        }
    }

    fn log_outage(&self, error: &Error) {
        if !self.is_outage_logged.swap(true, Ordering::SeqCst) {
            tracing::warn!(%error, "coordinator is unreachable; retrying");
        }
    }
}

/// Returns whether the error is the coordinator's fault and a retry may succeed.
fn is_temporary(error: &Error) -> bool {
    error.code.is_passing() || error.code.status() >= 500
}

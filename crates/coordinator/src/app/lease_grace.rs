//! Extends leases after an outage, so that lease time does not elapse while the coordinator is unreachable.
//!
//! Runners cannot renew their leases while the coordinator or its database is down. Without extension,
//! attempts that kept working would be treated as lost. The sweeper or the first request of a runner detects
//! the outage and extends the leases.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use slipform_api::Error;
use tokio::time::Instant;

use super::{App, errors};

/// When leases were last known to be renewable; `None` if no sweeper runs in this process.
#[derive(Debug, Default)]
pub(super) struct LeaseGrace(Mutex<Option<Instant>>);

impl App {
    /// Extends leases by the time since a runner was last seen. A server calls this when it starts.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn extend_leases(&self) -> Result<(), slipform_store::Error> {
        self.store().extend_leases(None, self.lease_ms()).await.map(drop)
    }

    /// Records that leases are renewable now.
    pub(crate) fn mark_renewable(&self) {
        *self.inner.lease_grace.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Extends leases if more than half a lease has passed since the sweeper last reached the store.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub(crate) async fn extend_after_outage(&self) -> Result<(), Error> {
        let last = *self.inner.lease_grace.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outage = last.map_or(Duration::ZERO, |last| last.elapsed());
        if outage <= self.options().lease / 2 {
            return Ok(());
        }
        let outage_ms = i64::try_from(outage.as_millis()).unwrap_or(i64::MAX / 2);
        self.store().extend_leases(Some(outage_ms), self.lease_ms()).await.map_err(errors::store)?;
        self.mark_renewable();
        Ok(())
    }
}

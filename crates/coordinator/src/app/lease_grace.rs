//! Leases count only while somebody is there to renew them with.
//!
//! A coordinator that was away, or whose database was, has kept runners from renewing their leases. They would be told
//! that their attempts are somebody else's by now, though they have worked all the time. So whoever notices first that
//! there was such a time, the sweeper or a runner's message, sees to it that it does not count.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use slipform_api::Error;
use tokio::time::Instant;

use super::{App, errors};

/// When it was last known that runners could renew their leases; none where nobody sweeps.
#[derive(Debug, Default)]
pub(super) struct LeaseGrace(Mutex<Option<Instant>>);

impl App {
    /// Prolongs leases by the time in which nobody served. For whoever begins to.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn grace(&self) -> Result<(), slipform_store::Error> {
        self.store().extend_leases(None, self.lease_ms()).await.map(drop)
    }

    /// Notes that runners can renew their leases at this moment.
    pub(crate) fn note_awake(&self) {
        *self.inner.lease_grace.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Prolongs leases where runners could not renew them for a time that matters.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn extend_after_outage(&self) -> Result<(), Error> {
        let last = *self.inner.lease_grace.0.lock().unwrap_or_else(PoisonError::into_inner);
        let away = last.map_or(Duration::ZERO, |last| last.elapsed());
        if away <= self.options().lease / 2 {
            return Ok(());
        }
        let away_ms = i64::try_from(away.as_millis()).unwrap_or(i64::MAX / 2);
        self.store().extend_leases(Some(away_ms), self.lease_ms()).await.map_err(errors::store)?;
        self.note_awake();
        Ok(())
    }
}

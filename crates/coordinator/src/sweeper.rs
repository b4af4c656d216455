//! Periodic maintenance: expired leases and old sessions.

use std::time::Duration;

use slipform_store::{Retention, SweepLimits};
use tokio::time::MissedTickBehavior;

use crate::app::App;

/// Lost attempts at the same step after which a run fails. A run that crashes its runners must not do so
/// forever.
const LOSSES_MAX: i64 = 3;

/// Time that a stopping run waits for a runner. Keeps the time to stop a run below 3 s.
const STOP_WAIT_MS: i64 = 2_000;

/// Maximum number of runs of each kind per sweep.
const BATCH: usize = 500;

/// Limits of a sweep.
const LIMITS: SweepLimits = SweepLimits { losses_max: LOSSES_MAX, stop_wait_ms: STOP_WAIT_MS, batch: BATCH };

/// Interval between deletions of old sessions.
const RETENTION_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of stored requests of the gateway, about 50 MB. The oldest are deleted first. Statistics over all of them
/// take less than a second.
const GATEWAY_REQUESTS_MAX: i64 = 250_000;

/// Options of the sweeper.
#[derive(Debug, Clone, Copy)]
pub struct SweeperOptions {
    /// Interval between sweeps.
    pub interval: Duration,
    /// Limits on ended sessions.
    pub retention: Retention,
}

impl Default for SweeperOptions {
    fn default() -> Self {
        SweeperOptions { interval: Duration::from_millis(500), retention: Retention::default() }
    }
}

/// Requeues or ends runs whose lease, stop request or deadline has expired, and deletes old sessions.
pub struct Sweeper {
    app: App,
    options: SweeperOptions,
}

impl Sweeper {
    /// Creates a sweeper for an app's store.
    pub fn new(app: App, options: SweeperOptions) -> Sweeper {
        Sweeper { app, options }
    }

    /// Sweeps and deletes old sessions forever. Retries if the database is unavailable.
    pub async fn run(self) {
        // Separate loops: deleting many sessions takes long, and leases expire meanwhile.
        tokio::join!(self.sweep(), self.retain());
    }

    async fn sweep(&self) {
        let mut ticks = tokio::time::interval(self.options.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.app.mark_renewable();
        loop {
            ticks.tick().await;
            // A database that can be read but not written to, such as on a full disk, renews no leases.
            let store = self.app.store();
            if store.has_failed_write() && store.ping().await.is_err() {
                continue;
            }
            if self.app.extend_after_outage().await.is_err() {
                continue;
            }
            match self.app.store().sweep(LIMITS).await {
                Ok(swept) => {
                    self.app.mark_renewable();
                    self.app.swept(&swept);
                }
                Err(error) => tracing::warn!(%error, "cannot sweep expired leases; retrying"),
            }
        }
    }

    async fn retain(&self) {
        let mut ticks = tokio::time::interval(RETENTION_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.delete_old_sessions().await {
                tracing::warn!(%error, "cannot delete old sessions; retrying");
            }
        }
    }

    /// Deletes all sessions that exceed the limits, and returns their space.
    async fn delete_old_sessions(&self) -> Result<(), slipform_store::Error> {
        let store = self.app.store();
        while store.retain(self.options.retention).await? > 0 {}
        let age_ms_max = self.options.retention.age_ms_max;
        while store.retain_requests(age_ms_max, GATEWAY_REQUESTS_MAX).await? > 0 {}
        store.release_space().await
    }
}

impl App {
    /// Sweeps once, for commands that open a store without serving it.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn sweep_once(&self) -> Result<(), slipform_store::Error> {
        let swept = self.store().sweep(LIMITS).await?;
        self.swept(&swept);
        Ok(())
    }
}

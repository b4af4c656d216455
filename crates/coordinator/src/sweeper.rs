//! What has to happen though nobody asks for it.

use std::time::Duration;

use slipform_store::{Retention, SweepLimits};
use tokio::time::Instant;

use crate::app::App;

/// Lost attempts at the same step after which a run has failed: a run that kills its runners would kill them for ever.
const LOSSES_MAX: i64 = 3;

/// How long a run that is to stop waits for a runner. A stopped run ends within 3 s.
const STOP_WAIT_MS: i64 = 2_000;

/// The most runs of a kind in one sweep.
const BATCH: usize = 500;

/// How far a sweep goes.
const LIMITS: SweepLimits = SweepLimits { losses_max: LOSSES_MAX, stop_wait_ms: STOP_WAIT_MS, batch: BATCH };

/// How often old sessions are looked for.
const RETAIN_EVERY: Duration = Duration::from_secs(60);

/// How the sweeper works.
#[derive(Debug, Clone, Copy)]
pub struct SweeperOptions {
    /// How often it looks.
    pub interval: Duration,
    /// How long things are kept.
    pub retention: Retention,
}

impl Default for SweeperOptions {
    fn default() -> Self {
        SweeperOptions { interval: Duration::from_millis(500), retention: Retention::default() }
    }
}

/// Puts back what runners lost, ends what nobody ends, and deletes what is too old.
pub struct Sweeper {
    app: App,
    options: SweeperOptions,
}

impl Sweeper {
    /// A sweeper of what an app keeps.
    pub fn new(app: App, options: SweeperOptions) -> Sweeper {
        Sweeper { app, options }
    }

    /// Sweeps for as long as it is polled. A database that does not answer is tried again.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(self.options.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.app.note_awake();
        let mut retained: Option<Instant> = None;
        loop {
            ticks.tick().await;
            if self.app.extend_after_outage().await.is_err() {
                continue;
            }
            match self.app.store().sweep(LIMITS).await {
                Ok(swept) => {
                    self.app.note_awake();
                    self.app.swept(&swept);
                }
                Err(error) => tracing::warn!(%error, "nothing could be swept"),
            }
            if retained.is_none_or(|at| at.elapsed() >= RETAIN_EVERY) {
                retained = Some(Instant::now());
                if let Err(error) = self.app.store().retain(self.options.retention).await {
                    tracing::warn!(%error, "old sessions could not be looked for");
                }
            }
        }
    }
}

impl App {
    /// Puts back what runners lost and ends what nobody ends, once: for whoever looks at a store that nobody serves.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn sweep_once(&self) -> Result<(), slipform_store::Error> {
        let swept = self.store().sweep(LIMITS).await?;
        self.swept(&swept);
        Ok(())
    }
}

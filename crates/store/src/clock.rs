//! The clocks of the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::record::Millis;

/// Reads the machine's clocks. Tests set the time of day forward and back with [`Clock::jump`].
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// Added to the time of day, in milliseconds.
    ahead: Arc<AtomicI64>,
}

impl Clock {
    /// Sets the time of day forward, or back with a negative number. Elapsed time is not affected.
    pub fn jump(&self, ms: Millis) {
        self.ahead.fetch_add(ms, Ordering::SeqCst);
    }

    /// Returns the time of day in milliseconds since 1970. It jumps when the clock is set, and after a suspend.
    pub(crate) fn time_of_day(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        now.saturating_add(self.ahead.load(Ordering::Relaxed))
    }

    /// Returns the elapsed time in milliseconds since the machine started, without the time that it was suspended. All
    /// processes of the machine read the same value.
    pub(crate) fn elapsed(&self) -> Millis {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000)
    }
}

/// Returns a text that is the same for all processes whose elapsed times can be compared: those since the last start of
/// the machine, in one time namespace. Empty where the system has no such text.
pub(crate) fn boot_id() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display()).trim().to_owned()
}

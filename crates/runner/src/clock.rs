//! Time, as the journal writes it.

use std::time::{SystemTime, UNIX_EPOCH};

use slipform_types::timestamp;

/// Where a runner reads the time. Tests bring their own.
pub trait Clock: Send + Sync {
    /// The time now, in RFC 3339 and UTC.
    fn now(&self) -> String;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

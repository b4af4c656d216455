//! Timestamps for the journal.

use std::time::{SystemTime, UNIX_EPOCH};

use slipform_types::timestamp;

/// The source of timestamps. Tests use a fixed one.
pub trait Clock: Send + Sync {
    /// Returns the current time in RFC 3339 and UTC.
    fn now(&self) -> String;
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

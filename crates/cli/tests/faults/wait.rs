//! Polling with a deadline.

use std::time::{Duration, Instant};

/// The longest wait for any condition. It is generous, since a loaded machine delays every process.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Polls until `poll` returns a value. Panics with `condition` after [`WAIT_MAX`].
pub(crate) fn wait_until<T>(condition: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(Instant::now() < deadline, "not reached within {} s: {condition}", WAIT_MAX.as_secs());
        std::thread::sleep(POLL_INTERVAL);
    }
}

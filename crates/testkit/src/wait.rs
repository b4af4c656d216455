//! Waiting for a condition. Only these functions poll and sleep; a test calls them instead.

use std::time::{Duration, Instant};

/// The longest wait for any condition. It is generous, since a loaded machine delays every process; beyond it the test
/// fails instead of hanging.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// The time between two checks of a condition, which usually asks another process.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The time between two checks of a condition in the same process.
const POLL_INTERVAL_ASYNC: Duration = Duration::from_millis(5);

/// Blocks until `poll` returns a value. Panics with `what` after [`WAIT_MAX`].
///
/// ```
/// let mut calls = 0;
/// let answer = slipform_testkit::wait_for("the third call", || {
///     calls += 1;
///     (calls == 3).then_some("answer")
/// });
/// assert_eq!(answer, "answer");
/// ```
pub fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        if let Some(value) = poll() {
            return value;
        }
        check_deadline(what, deadline);
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Blocks until `condition` holds. Panics with `what` after [`WAIT_MAX`].
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Waits like [`wait_until`] without blocking the runtime, whose clock must not be paused.
pub async fn wait_until_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + WAIT_MAX;
    while !condition().await {
        check_deadline(what, deadline);
        tokio::time::sleep(POLL_INTERVAL_ASYNC).await;
    }
}

fn check_deadline(what: &str, deadline: Instant) {
    assert!(Instant::now() < deadline, "not reached within {} s: {what}", WAIT_MAX.as_secs());
}

/// Lets `duration` pass on a paused clock; timers of other tasks fire on the way. Panics if the clock is not paused.
#[cfg(feature = "paused-clock")]
pub async fn elapse(duration: Duration) {
    // This is the only function of tokio's clock that refuses a running clock.
    tokio::time::advance(Duration::ZERO).await;
    tokio::time::sleep(duration).await;
}

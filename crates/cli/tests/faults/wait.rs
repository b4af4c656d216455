//! Waiting for something, and not for ever.

use std::time::{Duration, Instant};

/// How long anything may take to come about. A machine that is busy with other things needs patience.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Looks until there is something to see.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited {} s, and it did not happen: {what}", PATIENCE.as_secs());
        std::thread::sleep(LOOK_EVERY);
    }
}

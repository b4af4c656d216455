//! Delays between requests to a coordinator that is unreachable.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The first delay. A shorter one would not give a coordinator time to restart.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// The longest delay, which bounds the time until runners notice that the coordinator is reachable again.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Delays that double up to a limit.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { next: WAIT_MIN, longest: WAIT_MAX }
    }
}

impl Backoff {
    /// Returns the backoff after this many failures, with delays of at most `longest`.
    pub(crate) fn after(failures: u32, longest: Duration) -> Backoff {
        let next = WAIT_MIN.saturating_mul(1 << failures.min(16)).min(longest);
        Backoff { next, longest }
    }

    /// Returns the next delay and doubles the one after it.
    pub(crate) fn wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        jittered(wait)
    }
}

/// Returns a random delay between half of `wait` and all of it, so that runners do not retry in lockstep.
fn jittered(wait: Duration) -> Duration {
    // `RandomState` has random keys, which is enough randomness here.
    let random = RandomState::new().hash_one(0_u8) % 1024;
    wait / 2 + wait.mul_f64(random as f64 / 2048.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_their_limit() {
        let mut backoff = Backoff::default();
        for longest in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let (wait, longest) = (backoff.wait(), Duration::from_millis(longest));
            assert!(wait >= longest / 2 && wait <= longest, "{wait:?} of {longest:?}");
        }
        let wait = Backoff::after(40, Duration::from_secs(30)).wait();
        assert!(wait >= Duration::from_secs(15) && wait <= Duration::from_secs(30), "{wait:?}");
    }
}

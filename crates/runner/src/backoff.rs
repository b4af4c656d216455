//! Asking a coordinator again that is away.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use slipform_api::Answer;
use tokio::time::Instant;

/// The first wait. Shorter ones would not let a coordinator come back.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// The longest wait between two tries: a coordinator that is back finds its runners within that time.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Waits that double, up to a bound.
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
    /// The wait after this many failures before, at most `longest`.
    pub(crate) fn after(failures: u32, longest: Duration) -> Backoff {
        let next = WAIT_MIN.saturating_mul(1 << failures.min(16)).min(longest);
        Backoff { next, longest }
    }

    /// How long to wait now; the next wait is twice as long.
    pub(crate) fn wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        jittered(wait)
    }
}

/// Between half of the wait and the whole, so that many runners do not come back at the same moment.
fn jittered(wait: Duration) -> Duration {
    // The hasher's keys are random; that is all the randomness needed here.
    let random = RandomState::new().hash_one(0_u8) % 1024;
    wait / 2 + wait.mul_f64(random as f64 / 2048.0)
}

/// Asks until there is an answer that does not pass, or until `patience` is spent.
pub(crate) async fn insist<'a, T>(
    patience: Duration,
    ask: impl Fn() -> Answer<'a, T>,
) -> Result<T, slipform_api::Error> {
    let (began, mut backoff) = (Instant::now(), Backoff::default());
    loop {
        let error = match ask().await {
            Err(error) if error.code.is_passing() => error,
            answer => return answer,
        };
        let wait = backoff.wait();
        if began.elapsed() + wait > patience {
            return Err(error);
        }
        tracing::debug!(%error, ?wait, "the coordinator is asked again");
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound() {
        let mut backoff = Backoff::default();
        for longest in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let (wait, longest) = (backoff.wait(), Duration::from_millis(longest));
            assert!(wait >= longest / 2 && wait <= longest, "{wait:?} of {longest:?}");
        }
        let wait = Backoff::after(40, Duration::from_secs(30)).wait();
        assert!(wait >= Duration::from_secs(15) && wait <= Duration::from_secs(30), "{wait:?}");
    }
}

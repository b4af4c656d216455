//! Decides whether to retry a call to an unreachable or overloaded backend, and after which wait.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// The longest backoff between two attempts.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The longest `Retry-After` that is honoured. If a backend asks for more, the call fails at once.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The size of the retry budget that all calls of a backend share. When it is used up, each call makes one
/// attempt only, so that retries do not multiply the load of a failing backend.
const BUDGET_MAX: u32 = 20;

/// The retry policy of one backend.
#[derive(Debug)]
pub(crate) struct Retry {
    retries_max: u32,
    base: Duration,
    budget: AtomicU32,
}

impl Retry {
    pub(crate) fn new(retries_max: u32, base: Duration) -> Retry {
        Retry { retries_max, base, budget: AtomicU32::new(BUDGET_MAX) }
    }

    /// Adds one retry to the budget after a successful call.
    pub(crate) fn succeeded(&self) {
        let _ = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left < BUDGET_MAX).then_some(left + 1)
        });
    }

    /// Returns the wait before retry number `retry` (from 1), or `None` if the call should fail.
    ///
    /// The call fails after the last retry, if the wait `requested` by the backend exceeds the maximum or the
    /// time `left`, and if the budget is used up.
    pub(crate) fn wait(&self, retry: u32, requested: Option<Duration>, left: Duration) -> Option<Duration> {
        if retry > self.retries_max || requested.is_some_and(|wait| wait > RETRY_AFTER_MAX) {
            return None;
        }
        let backoff = self.base.saturating_mul(1 << (retry - 1).min(16)).min(WAIT_MAX);
        let wait = requested.unwrap_or_default().max(jittered(backoff));
        if wait >= left {
            return None;
        }
        self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        Some(wait)
    }
}

/// Returns a random duration between half of `wait` and `wait`, so that clients do not retry simultaneously.
fn jittered(wait: Duration) -> Duration {
    // The random keys of the standard hasher are sufficient here.
    let random = RandomState::new().hash_one(0_u8) % 1024;
    wait / 2 + wait.mul_f64(random as f64 / 2048.0)
}

/// Parses a `Retry-After` header: seconds or an HTTP date. A date in the past is zero.
pub(crate) fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        // A number too large for a duration is still a valid request to wait.
        return (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    }
    let date = httpdate::parse_http_date(header).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_parses_seconds_and_dates() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(retry_after("7", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:47 GMT", now), Some(Duration::from_secs(10)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:27 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("1e30", now), Some(Duration::MAX));
        assert_eq!(retry_after("-3", now), None);
        assert_eq!(retry_after("NaN", now), None);
        assert_eq!(retry_after("soon", now), None);
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn wait_doubles_until_the_last_retry() {
        let retry = Retry::new(3, Duration::from_secs(1));
        for (number, longest) in [(1, 1), (2, 2), (3, 4)] {
            let wait = retry.wait(number, None, LONG).unwrap();
            let longest = Duration::from_secs(longest);
            assert!(wait >= longest / 2 && wait <= longest, "{number}: {wait:?}");
        }
        assert_eq!(retry.wait(4, None, LONG), None);
        assert_eq!(retry.wait(1, Some(Duration::from_secs(30)), LONG), Some(Duration::from_secs(30)));
        assert_eq!(retry.wait(1, Some(Duration::from_secs(3600)), LONG), None);
    }

    #[test]
    fn wait_beyond_the_remaining_time_is_refused() {
        let retry = Retry::new(3, Duration::ZERO);
        let requested = Some(Duration::from_secs(5));
        assert_eq!(retry.wait(1, requested, Duration::from_secs(5)), None);
        assert_eq!(retry.wait(1, requested, Duration::from_secs(6)), requested);
        assert_eq!(retry.wait(2, None, Duration::ZERO), None);
    }

    #[test]
    fn wait_with_empty_budget_is_refused_until_a_call_succeeds() {
        let retry = Retry::new(10, Duration::ZERO);
        let granted = (0..100).filter(|_| retry.wait(1, None, LONG).is_some()).count();
        assert_eq!(granted, 20);
        retry.succeeded();
        assert!(retry.wait(1, None, LONG).is_some());
        assert!(retry.wait(1, None, LONG).is_none());
    }
}

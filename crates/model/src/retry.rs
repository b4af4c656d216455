//! When to ask a backend again that is away or overloaded, and how long to wait before.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// The longest wait between two tries that we choose ourselves.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The longest wait that a backend may ask for. Beyond it the caller is better told at once.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Repeats that a backend may have in hand, over all calls. A backend that keeps failing is soon asked
/// once per call only, so that repeats never multiply its load.
const BUDGET_MAX: u32 = 20;

/// How one backend's calls are repeated.
#[derive(Debug)]
pub(crate) struct Retry {
    attempts_again_max: u32,
    base: Duration,
    budget: AtomicU32,
}

impl Retry {
    pub(crate) fn new(attempts_again_max: u32, base: Duration) -> Retry {
        Retry { attempts_again_max, base, budget: AtomicU32::new(BUDGET_MAX) }
    }

    /// A call went well: the backend earns a repeat back.
    pub(crate) fn succeeded(&self) {
        let _ = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left < BUDGET_MAX).then_some(left + 1)
        });
    }

    /// How long to wait before repeat number `again` (from 1), or none when it is time to give up: after the
    /// last repeat, when the backend asks for more patience than we or the call have `left`, or when the
    /// budget is spent.
    pub(crate) fn wait(&self, again: u32, asked_for: Option<Duration>, left: Duration) -> Option<Duration> {
        if again > self.attempts_again_max || asked_for.is_some_and(|wait| wait > RETRY_AFTER_MAX) {
            return None;
        }
        let doubled = self.base.saturating_mul(1 << (again - 1).min(16)).min(WAIT_MAX);
        let wait = asked_for.unwrap_or_default().max(jittered(doubled));
        if wait >= left {
            return None;
        }
        self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        Some(wait)
    }
}

/// Between half of the wait and the whole, so that many clients do not come back at the same moment.
fn jittered(wait: Duration) -> Duration {
    // The hasher's keys are random; that is all the randomness needed here.
    let random = RandomState::new().hash_one(0_u8) % 1024;
    wait / 2 + wait.mul_f64(random as f64 / 2048.0)
}

/// What a `Retry-After` header asks for: seconds or a date.
pub(crate) fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        // More seconds than a duration holds are still a wish to be left alone.
        return (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    }
    let date = httpdate::parse_http_date(header).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
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
    fn waits_double_and_end() {
        let retry = Retry::new(3, Duration::from_secs(1));
        for (again, longest) in [(1, 1), (2, 2), (3, 4)] {
            let wait = retry.wait(again, None, LONG).unwrap();
            let longest = Duration::from_secs(longest);
            assert!(wait >= longest / 2 && wait <= longest, "{again}: {wait:?}");
        }
        assert_eq!(retry.wait(4, None, LONG), None);
        assert_eq!(retry.wait(1, Some(Duration::from_secs(30)), LONG), Some(Duration::from_secs(30)));
        assert_eq!(retry.wait(1, Some(Duration::from_secs(3600)), LONG), None);
    }

    #[test]
    fn no_repeat_begins_after_the_calls_time() {
        let retry = Retry::new(3, Duration::ZERO);
        let asked_for = Some(Duration::from_secs(5));
        assert_eq!(retry.wait(1, asked_for, Duration::from_secs(5)), None);
        assert_eq!(retry.wait(1, asked_for, Duration::from_secs(6)), asked_for);
        assert_eq!(retry.wait(2, None, Duration::ZERO), None);
    }

    #[test]
    fn a_backend_that_keeps_failing_is_not_hammered() {
        let retry = Retry::new(10, Duration::ZERO);
        let granted = (0..100).filter(|_| retry.wait(1, None, LONG).is_some()).count();
        assert_eq!(granted, 20);
        retry.succeeded();
        assert!(retry.wait(1, None, LONG).is_some());
        assert!(retry.wait(1, None, LONG).is_none());
    }
}

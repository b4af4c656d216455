//! The work_signal that runners wait for: somebody may find work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::throttle::Throttle;

/// One ring wakes one runner: a hundred that wake for one run would ask the database a hundred times. What is rung while
/// nobody listens is counted, and whoever has looked passes it on.
#[derive(Debug, Default)]
pub(super) struct WorkSignal {
    rung: Notify,
    /// Runs that were put into the queue here and were not seen to leave it. Never relied on, only a reason to look.
    expected: AtomicUsize,
    /// When somebody last looked without having heard anything.
    unasked: Throttle,
}

impl WorkSignal {
    /// So many runs were put into the queue.
    pub(super) fn notify(&self, runs: usize) {
        self.expected.fetch_add(runs, Ordering::Relaxed);
        self.rung.notify_one();
    }

    /// Comes when it is rung for whoever waits.
    pub(super) fn notified(&self) -> Notified<'_> {
        self.rung.notified()
    }

    /// What is to be said to [`WorkSignal::looked`] after a look that begins now.
    pub(super) fn expected(&self) -> usize {
        self.expected.load(Ordering::Relaxed)
    }

    /// Somebody has looked, and found so many. The next one looks where there may be more.
    pub(super) fn observed(&self, expected: usize, found: usize) {
        if found == 0 {
            // Whatever was expected before is gone. What came since is not touched.
            let _ = self.expected.compare_exchange(expected, 0, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            let less = |expected: usize| Some(expected.saturating_sub(found));
            let _ = self.expected.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        if self.expected() > 0 {
            self.rung.notify_one();
        }
    }

    /// Whether to look though nobody rang: others put work into the queue too. Once for all who wait.
    pub(super) fn may_look(&self, pause: Duration) -> bool {
        self.unasked.is_time(pause)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_ready(waiting: impl Future<Output = ()>) -> bool {
        pin!(waiting).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn two_rings_that_nobody_hears_are_two_looks() {
        let work_signal = WorkSignal::default();
        work_signal.notify(1);
        work_signal.notify(1);
        assert!(is_ready(work_signal.notified()));
        let expected = work_signal.expected();
        work_signal.observed(expected, 1);
        assert!(is_ready(work_signal.notified()), "the second run is found as well");
        let expected = work_signal.expected();
        work_signal.observed(expected, 1);
        assert!(!is_ready(work_signal.notified()), "nobody looks for a third");
    }

    #[test]
    fn what_another_took_is_looked_for_once() {
        let work_signal = WorkSignal::default();
        work_signal.notify(3);
        assert!(is_ready(work_signal.notified()));
        let expected = work_signal.expected();
        work_signal.observed(expected, 0);
        assert!(!is_ready(work_signal.notified()));
    }

    #[test]
    fn what_comes_while_somebody_looks_is_looked_for() {
        let work_signal = WorkSignal::default();
        work_signal.notify(1);
        assert!(is_ready(work_signal.notified()));
        let expected = work_signal.expected();
        work_signal.notify(1);
        assert!(is_ready(work_signal.notified()), "somebody else hears it and goes away");
        work_signal.observed(expected, 0);
        assert!(is_ready(work_signal.notified()));
    }
}

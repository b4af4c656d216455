//! Wakes runners that wait for runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::throttle::Throttle;

/// Wakes one waiting claim request at a time, because waking all of them would query the database once per
/// request. `expected` counts runs that may be queued: each request that has checked the queue wakes the next
/// one while the count is above zero.
#[derive(Debug, Default)]
pub(super) struct WorkSignal {
    notify: Notify,
    /// Runs queued by this process and not yet seen to leave the queue. An estimate that only decides whether
    /// to check the queue again.
    expected: AtomicUsize,
    /// Limits checks without a notification.
    unprompted: Throttle,
}

impl WorkSignal {
    /// Reports that up to `runs` runs may have been queued.
    pub(super) fn notify(&self, runs: usize) {
        self.expected.fetch_add(runs, Ordering::Relaxed);
        self.notify.notify_one();
    }

    /// Completes when a notification wakes this waiter.
    pub(super) fn notified(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// Returns the snapshot to pass to [`WorkSignal::observed`] after checking the queue.
    pub(super) fn expected(&self) -> usize {
        self.expected.load(Ordering::Relaxed)
    }

    /// Reports that a check found `found` runs. Wakes another runner if more may be queued.
    pub(super) fn observed(&self, expected: usize, found: usize) {
        if found == 0 {
            // The expected runs are gone. Leaves the counter alone if it has changed since the snapshot.
            let _ = self.expected.compare_exchange(expected, 0, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            let less = |expected: usize| Some(expected.saturating_sub(found));
            let _ = self.expected.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        if self.expected() > 0 {
            self.notify.notify_one();
        }
    }

    /// Returns whether to check the queue without a notification, because other processes queue runs too. Limited
    /// across all waiting runners.
    pub(super) fn may_poll(&self, pause: Duration) -> bool {
        self.unprompted.is_due(pause)
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
    fn two_notifications_without_waiter_cause_two_checks() {
        let work_signal = WorkSignal::default();
        work_signal.notify(1);
        work_signal.notify(1);
        assert!(is_ready(work_signal.notified()));
        let expected = work_signal.expected();
        work_signal.observed(expected, 1);
        assert!(is_ready(work_signal.notified()), "the second run is checked for");
        let expected = work_signal.expected();
        work_signal.observed(expected, 1);
        assert!(!is_ready(work_signal.notified()), "no third check");
    }

    #[test]
    fn run_taken_by_another_causes_one_check() {
        let work_signal = WorkSignal::default();
        work_signal.notify(3);
        assert!(is_ready(work_signal.notified()));
        let expected = work_signal.expected();
        work_signal.observed(expected, 0);
        assert!(!is_ready(work_signal.notified()));
    }

    #[test]
    fn notification_during_check_causes_another_check() {
        let work_signal = WorkSignal::default();
        work_signal.notify(1);
        assert!(is_ready(work_signal.notified()));
        let expected = work_signal.expected();
        work_signal.notify(1);
        assert!(is_ready(work_signal.notified()), "another waiter consumes it and leaves");
        work_signal.observed(expected, 0);
        assert!(is_ready(work_signal.notified()));
    }
}

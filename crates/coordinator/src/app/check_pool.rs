//! Compiles schemas and checks texts on a bounded number of threads, off the async runtime.

use std::sync::Arc;
use std::thread::available_parallelism;

use slipform_api::{Code, Error};
use tokio::sync::Semaphore;

/// Minimum number of concurrent checks, so that one slow schema does not delay all others.
const SLOTS_MIN: usize = 2;

/// Maximum number of concurrent checks. Each may take 100 MB for a hostile schema or text.
const SLOTS_MAX: usize = 8;

/// Maximum number of checks that run or wait. Each waiting one holds its request in memory. Beyond it, requests are
/// refused.
const CHECKS_MAX: usize = 128;

/// Threads for checks.
#[derive(Debug)]
pub(super) struct CheckPool {
    /// Permits for checks that run.
    slots: Arc<Semaphore>,
    /// Permits for checks that run or wait.
    checks: Semaphore,
}

impl Default for CheckPool {
    fn default() -> Self {
        let cores = available_parallelism().map_or(SLOTS_MIN, std::num::NonZero::get);
        CheckPool::new(cores.clamp(SLOTS_MIN, SLOTS_MAX), CHECKS_MAX)
    }
}

impl CheckPool {
    fn new(slots: usize, checks: usize) -> CheckPool {
        CheckPool { slots: Arc::new(Semaphore::new(slots)), checks: Semaphore::new(checks) }
    }

    /// Runs `check` on a thread of the pool, and waits for a free one.
    ///
    /// # Errors
    /// Returns `RateLimited` if too many checks wait, and `Internal` if `check` panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        check: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let _place = self.checks.try_acquire().map_err(|_| {
            Error::new(Code::RateLimited, "too many schemas and texts are being checked; retry in a moment")
        })?;
        // Both semaphores are never closed.
        let slot = self.slots.clone().acquire_owned().await;
        let running = tokio::task::spawn_blocking(move || {
            // The thread holds the slot, because it continues when the request is given up.
            let _slot = slot;
            check()
        });
        running.await.map_err(|error| Error::new(Code::Internal, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn check_waits_for_slot_and_leaves_runtime_free() {
        let pool = Arc::new(CheckPool::new(1, 2));
        let (open, gate) = mpsc::channel::<()>();
        let (started, mut has_started) = tokio::sync::mpsc::unbounded_channel();
        let first = tokio::spawn({
            let (pool, started) = (pool.clone(), started.clone());
            async move {
                let check = move || {
                    let _ = started.send(1);
                    let _ = gate.recv();
                };
                pool.run(check).await
            }
        });
        assert_eq!(has_started.recv().await, Some(1));
        // The runtime has one thread, and it continues while the first check blocks.
        let second = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(move || started.send(2)).await }
        });
        while pool.checks.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = pool.run(|| ()).await.unwrap_err();
        assert_eq!(refused.code, Code::RateLimited);
        assert!(has_started.try_recv().is_err(), "the second check ran beside the first");
        open.send(()).unwrap();
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap().unwrap();
        assert_eq!(has_started.recv().await, Some(2));
    }

    #[tokio::test]
    async fn abandoned_check_keeps_its_slot_until_it_ends() {
        let pool = Arc::new(CheckPool::new(1, 2));
        let (open, gate) = mpsc::channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let abandoned = tokio::spawn({
            let pool = pool.clone();
            async move {
                let check = move || {
                    let _ = started.send(());
                    let _ = gate.recv();
                };
                pool.run(check).await
            }
        });
        has_started.await.unwrap();
        abandoned.abort();
        assert!(abandoned.await.unwrap_err().is_cancelled());
        assert_eq!(pool.slots.available_permits(), 0);
        open.send(()).unwrap();
        pool.run(|| ()).await.unwrap();
    }

    #[tokio::test]
    async fn panic_of_check_is_an_internal_error() {
        let pool = CheckPool::new(1, 1);
        let failed = pool.run(|| std::panic::resume_unwind(Box::new("a defect"))).await;
        assert_eq!(failed.map(|(): ()| ()).unwrap_err().code, Code::Internal);
        pool.run(|| ()).await.unwrap();
    }
}

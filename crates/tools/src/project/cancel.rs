//! Runs file system work on blocking threads. Tokio cannot abort such a thread, so the work polls a
//! cancellation flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Error;

/// A flag that is set when the caller no longer waits for the result.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Requests cancellation.
    pub(super) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns an error once cancellation was requested.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Error::Failed("the call was stopped before it was done".to_owned()));
        }
        Ok(())
    }
}

/// Requests cancellation when the call's future is dropped, including on timeout.
struct Guard(Cancellation);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs blocking work on its own thread for at most `limit`.
pub(crate) async fn run_blocking<T: Send + 'static>(
    tool: &str,
    limit: Duration,
    work: impl FnOnce(&Cancellation) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let cancel = Cancellation::default();
    let guard = Guard(cancel.clone());
    let task = tokio::task::spawn_blocking(move || work(&cancel));
    let result = match tokio::time::timeout(limit, task).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(Error::Failed(format!("the tool '{tool}' failed: {error}"))),
        Err(_) => Err(Error::Timeout { tool: tool.to_owned(), limit }),
    };
    drop(guard);
    result
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Returns work that runs until it is cancelled, and a channel that signals its end.
    fn work_until_cancelled()
    -> (impl FnOnce(&Cancellation) -> Result<(), Error> + Send + 'static, mpsc::Receiver<()>) {
        let (stopped, ended) = mpsc::channel();
        let work = move |cancel: &Cancellation| {
            while cancel.check().is_ok() {
                std::thread::yield_now();
            }
            stopped.send(()).map_err(|error| Error::Failed(error.to_string()))
        };
        (work, ended)
    }

    #[tokio::test]
    async fn work_over_its_time_limit_is_cancelled() {
        let (work, ended) = work_until_cancelled();
        let result = run_blocking("slow", Duration::ZERO, work).await;
        assert!(matches!(result, Err(Error::Timeout { .. })), "{result:?}");
        ended.recv().unwrap();
    }

    #[tokio::test]
    async fn work_of_a_dropped_future_is_cancelled() {
        let (work, ended) = work_until_cancelled();
        let dropped = tokio::time::timeout(Duration::ZERO, run_blocking("slow", Duration::MAX, work)).await;
        assert!(dropped.is_err());
        ended.recv().unwrap();
    }
}

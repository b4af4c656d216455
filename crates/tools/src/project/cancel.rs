//! Work on files happens on threads that cannot be stopped from outside; they look here whether to go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Error;

/// Whether anyone still waits for the result.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Says that nobody waits any more.
    pub(super) fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Fails once nobody waits any more.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Error::Failed("the call was stopped before it was done".to_owned()));
        }
        Ok(())
    }
}

/// Tells the work to stop when the call's future is dropped, whether it was answered, stopped or timed out.
struct Guard(Cancel);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Does blocking work on a thread for it, for as long as `limit` at most.
pub(crate) async fn perform<T: Send + 'static>(
    tool: &str,
    limit: Duration,
    work: impl FnOnce(&Cancel) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let cancel = Cancel::default();
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

    /// Work that ends only when it is told to, and where it says that it did.
    fn endless() -> (impl FnOnce(&Cancel) -> Result<(), Error> + Send + 'static, mpsc::Receiver<()>) {
        let (stopped, ends) = mpsc::channel();
        let work = move |cancel: &Cancel| {
            while cancel.check().is_ok() {
                std::thread::yield_now();
            }
            stopped.send(()).map_err(|error| Error::Failed(error.to_string()))
        };
        (work, ends)
    }

    #[tokio::test]
    async fn work_that_takes_too_long_is_told_to_stop() {
        let (work, ends) = endless();
        let result = perform("slow", Duration::ZERO, work).await;
        assert!(matches!(result, Err(Error::Timeout { .. })), "{result:?}");
        ends.recv().unwrap();
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_told_to_stop() {
        let (work, ends) = endless();
        let dropped = tokio::time::timeout(Duration::ZERO, perform("slow", Duration::MAX, work)).await;
        assert!(dropped.is_err());
        ends.recv().unwrap();
    }
}

//! The limit of concurrent calls to a backend.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::Patience;
use crate::error::Error;

/// Calls that may wait for each one that runs. A call behind more of them would reach its time limit before its turn.
const WAITING_PER_SLOT: usize = 16;

/// Calls that may wait at any backend.
const WAITING_MIN: usize = 64;

/// The wait that a refused call is told. Slots become free one by one, so a later attempt soon finds one.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The places of concurrent calls, with a bounded queue in front of them.
#[derive(Debug)]
pub struct CallSlots {
    running: Semaphore,
    /// Places for running and waiting calls.
    admitted: Semaphore,
    most: usize,
}

/// The slot of a call, until it is dropped.
#[derive(Debug)]
pub struct CallSlot<'s> {
    _running: SemaphorePermit<'s>,
    /// `None` for a call that waited behind a full queue.
    _admitted: Option<SemaphorePermit<'s>>,
}

impl CallSlots {
    /// Creates slots for this number of concurrent calls.
    pub fn new(concurrency: usize) -> CallSlots {
        let concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS / 32);
        let most = concurrency + (concurrency * WAITING_PER_SLOT).max(WAITING_MIN);
        CallSlots { running: Semaphore::new(concurrency), admitted: Semaphore::new(most), most }
    }

    /// Waits for a slot.
    ///
    /// # Errors
    /// A call with short patience fails at once if too many calls wait already.
    pub async fn acquire(&self, patience: Patience) -> Result<CallSlot<'_>, Error> {
        let overloaded = || Error::Busy {
            status: 429,
            message: format!("{} calls wait for the backend already", self.most),
            retry_after: Some(RETRY_AFTER),
        };
        let admitted = self.admitted.try_acquire();
        // The others are bounded by the slots of their runners.
        if admitted.is_err() && patience.is_short {
            return Err(overloaded());
        }
        // Never closed.
        let running = self.running.acquire().await.map_err(|_| overloaded())?;
        Ok(CallSlot { _running: running, _admitted: admitted.ok() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Patience = Patience { is_short: true, deadline: None, wait_max: None };

    #[tokio::test]
    async fn call_with_short_patience_behind_a_full_queue_is_refused() {
        let slots = CallSlots::new(1);
        let running = slots.acquire(SHORT).await.unwrap();
        let waiting: Vec<_> = (0..WAITING_MIN)
            .map(|_| {
                let mut waiting = Box::pin(slots.acquire(SHORT));
                let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
                assert!(waiting.as_mut().poll(context).is_pending());
                waiting
            })
            .collect();
        let refused = slots.acquire(SHORT).await.unwrap_err();
        assert!(matches!(refused, Error::Busy { status: 429, .. }), "{refused}");
        let mut patient = Box::pin(slots.acquire(Patience::default()));
        let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
        assert!(patient.as_mut().poll(context).is_pending());
        drop((running, waiting));
        patient.await.unwrap();
    }
}

//! Requests that are being answered. A request that an SDK repeats joins the one that it repeats: one run, one bill.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::http::Extensions;
use futures_util::FutureExt as _;
use futures_util::future::Shared;
use slipform_api::RequestSender;
use tokio::sync::OwnedSemaphorePermit;

use crate::chat::response::Answer;
use crate::error::ApiError;

/// The time for which a run continues after its client has disconnected. The SDKs repeat a request after half a second.
const GRACE: Duration = Duration::from_millis(700);

/// The end of a request: the answers of its choices.
pub(crate) type Finished = Result<Arc<[Answer]>, ApiError>;

/// The sender and the body of a request, as a keyed hash that clients cannot predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u64; 2]);

/// The requests that a repeated request may join.
#[derive(Default)]
pub(crate) struct RequestsInFlight {
    hashers: [RandomState; 2],
    requests: Mutex<HashMap<Fingerprint, Weak<InFlight>>>,
}

/// What a request holds until it is answered: its share of the server's limits.
pub(crate) struct Limits {
    pub(crate) _permit: OwnedSemaphorePermit,
    /// What the server has attached to the request, such as its share of the memory for bodies.
    pub(crate) _extensions: Extensions,
}

/// The work of a request, which all connections that wait for it perform together.
type SharedWork = Shared<Pin<Box<dyn Future<Output = Finished> + Send>>>;

/// A request that is being answered.
struct InFlight {
    work: SharedWork,
    /// The connections that wait for the end.
    waiting: AtomicUsize,
    /// Whether the client may repeat the request.
    may_be_repeated: bool,
    /// Whether a connection has read the end. If none has, a repeated request can still do so.
    is_read: AtomicBool,
    _limits: Limits,
}

/// A connection that waits for the end of a request. The request is cancelled when its last connection is gone.
pub(crate) struct Waiter(Arc<InFlight>);

impl RequestsInFlight {
    /// Begins the work of a request, which runs while a connection waits for it. One with a fingerprint may be joined by
    /// later requests.
    pub(crate) fn start(
        &self,
        fingerprint: Option<Fingerprint>,
        limits: Limits,
        work: Pin<Box<dyn Future<Output = Finished> + Send>>,
    ) -> Waiter {
        let request = Arc::new(InFlight {
            work: work.shared(),
            waiting: AtomicUsize::new(1),
            may_be_repeated: fingerprint.is_some(),
            is_read: AtomicBool::new(false),
            _limits: limits,
        });
        if let Some(fingerprint) = fingerprint {
            let mut requests = self.lock();
            // Answered requests leave an entry behind.
            if requests.len() >= requests.capacity() {
                requests.retain(|_, request| request.strong_count() > 0);
            }
            requests.insert(fingerprint, Arc::downgrade(&request));
        }
        Waiter(request)
    }

    /// Joins the request with the same sender and body.
    pub(crate) fn join(&self, fingerprint: Fingerprint) -> Option<Waiter> {
        let request = self.lock().get(&fingerprint)?.upgrade()?;
        if request.is_read.load(Ordering::SeqCst) {
            return None;
        }
        request.waiting.fetch_add(1, Ordering::SeqCst);
        Some(Waiter(request))
    }

    pub(crate) fn fingerprint(&self, sender: &RequestSender, body: &[u8]) -> Fingerprint {
        Fingerprint(self.hashers.each_ref().map(|hasher| hasher.hash_one((sender, body))))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Fingerprint, Weak<InFlight>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Performs the request to its end.
    pub(crate) async fn finished(&self) -> Finished {
        let finished = self.0.work.clone().await;
        self.0.is_read.store(true, Ordering::SeqCst);
        finished
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let request = &self.0;
        let is_last = request.waiting.fetch_sub(1, Ordering::SeqCst) == 1;
        if !is_last || !request.may_be_repeated || request.is_read.load(Ordering::SeqCst) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let request = self.0.clone();
        runtime.spawn(async move {
            let end = tokio::time::Instant::now() + GRACE;
            let _ = tokio::time::timeout_at(end, request.work.clone()).await;
            tokio::time::sleep_until(end).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    fn limits() -> Limits {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        Limits { _permit: permit, _extensions: Extensions::new() }
    }

    fn sender(token: &str) -> RequestSender {
        RequestSender { token_id: Some(token.to_owned()), ..RequestSender::default() }
    }

    /// Lets time pass on the paused clock, and the tasks that are due run.
    async fn pass(time: Duration) {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(time).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn only_the_same_sender_with_the_same_body_joins() {
        let requests = RequestsInFlight::default();
        let own = requests.fingerprint(&sender("a"), b"{}");
        let waiter = requests.start(Some(own), limits(), Box::pin(std::future::pending()));
        assert!(requests.join(requests.fingerprint(&sender("b"), b"{}")).is_none());
        assert!(requests.join(requests.fingerprint(&sender("a"), b"{ }")).is_none());
        assert!(requests.join(requests.fingerprint(&sender("a"), b"{}")).is_some());
        drop(waiter);
    }

    #[tokio::test]
    async fn answer_that_no_connection_has_read_is_kept_for_the_repeated_request() {
        let requests = RequestsInFlight::default();
        let own = requests.fingerprint(&sender("a"), b"{}");
        let waiter = requests.start(Some(own), limits(), Box::pin(async { Ok(Arc::from(Vec::new())) }));
        drop(waiter);
        let second = requests.join(own).unwrap();
        assert_eq!(second.finished().await, Ok(Arc::from(Vec::new())));
        assert!(requests.join(own).is_none());
    }

    /// Work that never ends, and the flag that is set when it is cancelled.
    fn endless() -> (Pin<Box<dyn Future<Output = Finished> + Send>>, Arc<AtomicBool>) {
        struct Guard(Arc<AtomicBool>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let guard = Guard(is_cancelled.clone());
        let work = async move {
            let _guard = guard;
            std::future::pending().await
        };
        (Box::pin(work), is_cancelled)
    }

    #[tokio::test(start_paused = true)]
    async fn request_without_connections_is_cancelled_after_the_grace_period() {
        let requests = RequestsInFlight::default();
        let own = requests.fingerprint(&sender("a"), b"{}");
        let (work, is_cancelled) = endless();
        drop(requests.start(Some(own), limits(), work));
        let second = requests.join(own).unwrap();
        pass(GRACE * 2).await;
        assert!(!is_cancelled.load(Ordering::SeqCst));
        drop(second);
        pass(GRACE * 2).await;
        assert!(is_cancelled.load(Ordering::SeqCst));
        let (work, is_cancelled) = endless();
        drop(requests.start(None, limits(), work));
        assert!(is_cancelled.load(Ordering::SeqCst));
    }
}

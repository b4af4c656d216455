//! State shared by all handlers.

use std::sync::Arc;

use axum::extract::State;
use slipform_api::{Code, Error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::guard::Requester;
use super::server::ServerOptions;
use super::tokens::Tokens;
use crate::app::App;

/// Extractor for the shared state.
pub(super) type Shared = State<Arc<Context>>;

/// State shared by all handlers.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) app: App,
    pub(super) options: ServerOptions,
    pub(super) tokens: Tokens,
    /// Permits for short requests.
    requests: Arc<Semaphore>,
    /// Separate permits for runners, so that many callers cannot block heartbeats.
    runners: Arc<Semaphore>,
    /// Permits for reading bodies.
    bodies: Arc<Semaphore>,
    draining: watch::Sender<bool>,
}

impl Context {
    pub(super) fn new(app: App, options: ServerOptions) -> Arc<Context> {
        let permits = || Arc::new(Semaphore::new(options.max_requests));
        let (requests, runners, bodies) = (permits(), permits(), permits());
        let draining = watch::Sender::new(false);
        let tokens = Tokens::new(options.admin_token.as_deref());
        Arc::new(Context { app, options, tokens, requests, runners, bodies, draining })
    }

    /// Returns the app with the authority of the request's sender.
    pub(super) fn app_for(&self, requester: &Requester) -> App {
        match requester {
            Requester::Token(grant) => self.app.for_token(grant.clone()),
            Requester::Local | Requester::Anonymous => self.app.for_caller(),
        }
    }

    /// Acquires a permit for a request.
    pub(super) fn acquire(&self) -> Result<OwnedSemaphorePermit, Error> {
        try_acquire(&self.requests)
    }

    /// Acquires a permit for a runner's request.
    pub(super) fn acquire_runner(&self) -> Result<OwnedSemaphorePermit, Error> {
        try_acquire(&self.runners)
    }

    /// Acquires a permit for reading a body.
    pub(super) fn acquire_body(&self) -> Result<OwnedSemaphorePermit, Error> {
        try_acquire(&self.bodies)
    }

    /// Applies the request timeout.
    pub(super) async fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::time::timeout(self.options.request_timeout, work)
            .await
            .unwrap_or_else(|_| Err(timeout_error()))
    }

    /// Applies the request timeout and waits for a permit. Streams reconnect all at once after a restart, and
    /// browsers give up on a refused stream.
    pub(super) async fn with_permit<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.with_timeout(async {
            // The semaphore is never closed.
            let _permit = self.requests.acquire().await;
            work.await
        })
        .await
    }

    /// Starts the shutdown: streams and long polls end.
    pub(super) fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Completes when the shutdown starts.
    pub(super) async fn drain_started(&self) {
        // Cannot fail, because `self` holds the sender.
        let _ = self.draining.subscribe().wait_for(|draining| *draining).await;
    }
}

fn try_acquire(permits: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Error> {
    permits.clone().try_acquire_owned().map_err(|_| {
        let message = "too many concurrent requests; retry in a moment";
        Error::new(Code::RateLimited, message)
    })
}

/// The error for a timeout. The operation may still have taken effect.
pub(super) fn timeout_error() -> Error {
    Error::new(Code::Unavailable, "the request timed out; check whether it took effect before you retry")
}

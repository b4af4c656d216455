//! State shared by all handlers.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use slipform_api::{Code, Error};
use tokio::sync::{Semaphore, watch};

use super::guard::Requester;
use super::limits::is_runner_request;
use super::mounted::Mount;
use super::places::Places;
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
    callers: Budget,
    /// A separate budget, so that many callers cannot block heartbeats.
    runners: Budget,
    /// The budget of mounted routers that take larger bodies, so that they cannot block the API.
    mounted: Budget,
    draining: watch::Sender<bool>,
}

/// What the requests of callers, or those of runners, may use at once.
#[derive(Debug)]
pub(super) struct Budget {
    /// Places for short requests.
    pub(super) requests: Places,
    /// Places for reading bodies.
    pub(super) bodies: Places,
    /// One permit for each kibibyte of bodies in memory.
    pub(super) body_kib: Arc<Semaphore>,
}

impl Budget {
    fn new(requests: usize, body_bytes: usize) -> Budget {
        let (requests, bodies) = (Places::new(requests), Places::new(requests));
        Budget { requests, bodies, body_kib: Arc::new(Semaphore::new(body_bytes / 1_024)) }
    }
}

impl Context {
    pub(super) fn new(app: App, options: ServerOptions) -> Arc<Context> {
        let budget = || Budget::new(options.max_requests, options.max_body_bytes_in_flight);
        let (callers, runners, mounted) = (budget(), budget(), budget());
        let draining = watch::Sender::new(false);
        let tokens = Tokens::new(options.admin_token.as_deref());
        Arc::new(Context { app, options, tokens, callers, runners, mounted, draining })
    }

    /// Returns the app with the authority of the request's sender.
    pub(super) fn app_for(&self, requester: &Requester) -> App {
        match requester {
            Requester::Token(grant) => self.app.for_token(grant.clone()),
            Requester::Local | Requester::Anonymous => self.app.for_caller(),
        }
    }

    /// Returns the budget that a request belongs to.
    pub(super) fn budget(&self, uri: &Uri) -> &Budget {
        let mount = Mount::of(&self.options.mounts, uri.path());
        if is_runner_request(uri) {
            &self.runners
        } else if mount.is_some_and(|mount| mount.max_body_bytes.is_some()) {
            &self.mounted
        } else {
            &self.callers
        }
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
            let _permit = self.callers.requests.wait().await;
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

/// The error for a timeout. The operation may still have taken effect.
pub(super) fn timeout_error() -> Error {
    Error::new(Code::Unavailable, "the request timed out; check whether it took effect before you retry")
}

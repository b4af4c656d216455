//! What all handlers share.

use std::sync::Arc;

use axum::extract::State;
use slipform_api::{Code, Error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::guard::Visitor;
use super::server::ServerOptions;
use super::tokens::Tokens;
use crate::app::App;

/// How handlers get at it.
pub(super) type Shared = State<Arc<Context>>;

/// What all handlers share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) app: App,
    pub(super) options: ServerOptions,
    pub(super) tokens: Tokens,
    /// Room for requests that are answered at once.
    requests: Arc<Semaphore>,
    /// Room for those of runners: callers, however many, must not keep them from saying that they live.
    runners: Arc<Semaphore>,
    /// Room for bodies that are being read.
    bodies: Arc<Semaphore>,
    draining: watch::Sender<bool>,
}

impl Context {
    pub(super) fn new(app: App, options: ServerOptions) -> Arc<Context> {
        let room = || Arc::new(Semaphore::new(options.max_requests));
        let (requests, runners, bodies) = (room(), room(), room());
        let draining = watch::Sender::new(false);
        let tokens = Tokens::new(options.admin_token.as_deref());
        Arc::new(Context { app, options, tokens, requests, runners, bodies, draining })
    }

    /// The app with the rights of whoever sent a request.
    pub(super) fn app_for(&self, visitor: Visitor) -> App {
        match visitor {
            Visitor::Admin => self.app.clone(),
            Visitor::Known | Visitor::Stranger => self.app.for_caller(),
        }
    }

    /// Room for one more request.
    pub(super) fn admit(&self) -> Result<OwnedSemaphorePermit, Error> {
        room_in(&self.requests)
    }

    /// Room for one more request of a runner.
    pub(super) fn admit_runner(&self) -> Result<OwnedSemaphorePermit, Error> {
        room_in(&self.runners)
    }

    /// Room for one more body.
    pub(super) fn admit_body(&self) -> Result<OwnedSemaphorePermit, Error> {
        room_in(&self.bodies)
    }

    /// What has to be done within the time that a request has.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::time::timeout(self.options.request_timeout, work).await.unwrap_or_else(|_| Err(too_slow()))
    }

    /// The same, but waits for room. Followers come back all at once after a restart, and browsers give up on a refusal.
    pub(super) async fn in_turn<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.in_time(async {
            // The semaphore is never closed.
            let _room = self.requests.acquire().await;
            work.await
        })
        .await
    }

    /// From now on everything ends as soon as it can.
    pub(super) fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Comes when the server is going down.
    pub(super) async fn drained(&self) {
        // The sender is in `self`: there is no error.
        let _ = self.draining.subscribe().wait_for(|draining| *draining).await;
    }
}

fn room_in(room: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Error> {
    room.clone().try_acquire_owned().map_err(|_| {
        let message = "too many requests are being answered; try again in a moment";
        Error::new(Code::RateLimited, message)
    })
}

/// The database took too long. Whether it did what was asked is not known.
pub(super) fn too_slow() -> Error {
    Error::new(Code::Unavailable, "the answer took too long; look whether it was done before trying again")
}

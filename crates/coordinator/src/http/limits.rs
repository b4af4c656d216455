//! Limits the number and duration of short requests. Long polls and streams have their own limits.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use slipform_api::{Code, Error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::context::{Context, timeout_error};
use super::errors::ErrorResponse;
use super::places::Peer;

/// Middleware that acquires a permit and applies the request timeout.
pub(super) async fn limit(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let place = context.budget(request.uri()).requests.take(peer);
    let _place = match place {
        Ok(place) => place,
        Err(error) => return ErrorResponse(error).into_response(),
    };
    // Holds the memory of the body until the response is ready.
    let body_memory = BodyMemory::default();
    request.extensions_mut().insert(body_memory.clone());
    match tokio::time::timeout(context.options.request_timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ErrorResponse(timeout_error()).into_response(),
    }
}

/// The permits for the memory of a request's body. The last copy returns them.
#[derive(Debug, Clone, Default)]
pub(super) struct BodyMemory(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl BodyMemory {
    /// Takes permits until there is one for each kibibyte of a body of this length.
    ///
    /// # Errors
    /// Returns `RateLimited` if the bodies of all requests take too much memory.
    pub(super) fn grow_to(&self, bytes: usize, body_kib: &Arc<Semaphore>) -> Result<(), Error> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = bytes.div_ceil(1_024) - held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let more = body_kib.clone().try_acquire_many_owned(missing).map_err(|_| {
            let message = "the bodies of all requests take too much memory; retry in a moment";
            Error::new(Code::RateLimited, message)
        })?;
        match &mut *held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

/// Whether the request belongs to the runner API.
pub(super) fn is_runner_request(uri: &Uri) -> bool {
    uri.path().starts_with("/runner/")
}

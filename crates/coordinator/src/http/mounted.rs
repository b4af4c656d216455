//! Routers of other crates, behind the guard and the limits of this server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polling, Poll};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use axum::{Extension, Router};
use hyper::body::{Bytes, Frame};
use serde_json::Value;
use slipform_api::{Caller, ErrorBody};

use super::context::{Context, Shared};
use super::errors::refusal;
use super::extract::{CallerApp, read_body};
use super::guard::RequestToken;
use super::limits::BodyMemory;

/// Writes an error as the clients of a mounted router expect it.
pub type ErrorForm = fn(&ErrorBody) -> Value;

/// The paths of a mounted router.
#[derive(Debug, Clone)]
pub struct Mount {
    /// The beginning of the paths.
    pub prefix: &'static str,
    /// Writes errors before a request has reached the router.
    pub error_form: ErrorForm,
    /// Maximum size of a body; `None` for that of the API.
    pub max_body_bytes: Option<usize>,
    /// Whether clients send keys as another API requires them: also in `x-api-key`, and where no token is needed.
    pub takes_foreign_keys: bool,
}

impl Mount {
    /// Returns how errors are written that the clients of a path expect; `None` for the form of the API.
    pub(super) fn error_form(mounts: &[Mount], path: &str) -> Option<ErrorForm> {
        Mount::of(mounts, path).map(|mount| mount.error_form)
    }

    /// Returns the mount that a path belongs to.
    pub(super) fn of<'m>(mounts: &'m [Mount], path: &str) -> Option<&'m Mount> {
        mounts.iter().find(|mount| {
            let rest = path.strip_prefix(mount.prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// Adds the limits to a router, and the authority of each request's sender.
pub(super) fn limited(router: Router, context: &Arc<Context>) -> Router {
    router.layer(axum::middleware::from_fn_with_state(context.clone(), admit))
}

/// Reads the body within the limits and attaches the sender's [`Caller`]. A stream ends when its token is revoked.
async fn admit(
    State(context): Shared,
    CallerApp(app): CallerApp,
    Extension(token): Extension<RequestToken>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    // Its memory is held until the request is answered.
    parts.extensions.insert(BodyMemory::default());
    let bytes = match read_body(&context, &parts, body).await {
        Ok(bytes) => bytes,
        Err(error) => return refusal(Mount::error_form(&context.options.mounts, parts.uri.path()), error),
    };
    parts.extensions.insert(app.sender());
    parts.extensions.insert(Caller(Arc::new(app)));
    let response = next.run(Request::from_parts(parts, Body::from(bytes))).await;
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
        let revoked = async move { token.revoked(&context).await };
        return response.map(|body| Body::new(UntilRevoked { body, revoked: Box::pin(revoked) }));
    }
    response
}

/// Why a stream was cut off.
#[derive(Debug, thiserror::Error)]
#[error("the token was revoked")]
struct TokenRevoked;

/// The body of a stream whose token may be revoked.
struct UntilRevoked {
    body: Body,
    revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl hyper::body::Body for UntilRevoked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        polling: &mut Polling<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.revoked.as_mut().poll(polling).is_ready() {
            // An ordinary end would make a part of an answer look like all of it.
            return Poll::Ready(Some(Err(axum::Error::new(TokenRevoked))));
        }
        Pin::new(&mut self.body).poll_frame(polling)
    }
}

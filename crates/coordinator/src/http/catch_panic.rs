//! Converts panics into error responses.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use axum::response::Response;
use slipform_api::{Code, Error};

use super::errors::refusal;
use super::mounted::ErrorForm;

/// Converts a panic of a handler into a 500 response, so that the connection and the server survive. `form` is the form of errors
/// that the client expects.
pub(super) async fn catch_panic(form: Option<ErrorForm>, answer: impl Future<Output = Response>) -> Response {
    let mut answer = pin!(answer);
    poll_fn(|context| {
        // The panicked future is dropped and never polled again, so no broken state is observed.
        match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(_) => {
                let error = Error::new(Code::Internal, "internal error; see the server's log");
                Poll::Ready(refusal(form, error))
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_becomes_error_response() {
        let answer = catch_panic(None, async { panic!("on purpose") }).await;
        assert_eq!(answer.status(), 500);
        let body = axum::body::to_bytes(answer.into_body(), 1_000).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&body["error"], &body["status_code"]), (&"Internal".into(), &500.into()));
    }
}

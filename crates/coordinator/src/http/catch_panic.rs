//! The net under the handlers.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use axum::response::{IntoResponse, Response};
use slipform_api::Code;

use super::errors::Refused;

/// A panic in a handler is a fault of ours, and an answer; the server lives on.
pub(super) async fn catch_panic(answer: impl Future<Output = Response>) -> Response {
    let mut answer = pin!(answer);
    poll_fn(|context| {
        // Nothing that was half done is looked at again: the future is dropped with everything in it.
        match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(_) => {
                let refused = Refused::new(Code::Internal, "the server failed at this; its log says where");
                Poll::Ready(refused.into_response())
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let answer = catch_panic(async { panic!("on purpose") }).await;
        assert_eq!(answer.status(), 500);
        let body = axum::body::to_bytes(answer.into_body(), 1_000).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&body["error"], &body["status_code"]), (&"Internal".into(), &500.into()));
    }
}

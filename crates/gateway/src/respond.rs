//! Waits for the end of a request and responds.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use slipform_types::with_hex;
use tokio::sync::mpsc;

use crate::chat::request::ChatRequest;
use crate::chat::response::{Completion, Head};
use crate::chat::stream::ChatStream;
use crate::http::now;
use crate::in_flight::{Finished, Waiter};
use crate::random::random;

/// The time for which the status of a streamed response is held back, so that a failure has its own status.
const STATUS_HOLD: Duration = Duration::from_secs(10);

/// The header with the id of the run.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The response to a request that is being answered.
pub(crate) struct PendingResponse {
    head: Head,
    chat: Arc<ChatRequest>,
    /// The id of the run; `None` until it is known.
    pub(crate) request_id: Option<HeaderValue>,
}

impl PendingResponse {
    pub(crate) fn new(chat: Arc<ChatRequest>) -> PendingResponse {
        let bytes: [u8; 12] = random();
        let id = with_hex("chatcmpl-", &bytes);
        let head = Head { id, created: now(), model: chat.model.clone() };
        PendingResponse { head, chat, request_id: None }
    }

    /// Waits for the end of the request, or for the first piece of its text, and responds.
    pub(crate) async fn finish(
        self,
        waiter: Waiter,
        deltas: Option<mpsc::UnboundedReceiver<String>>,
    ) -> Response {
        if !self.chat.stream {
            let finished = waiter.finished().await;
            let request_id = self.request_id.or_else(|| id_in(&finished));
            let response = match finished {
                Ok(answers) => Json(Completion::new(&self.head, &answers)).into_response(),
                Err(error) => error.into_response(),
            };
            return with_id(response, request_id);
        }
        self.stream(waiter, deltas).await
    }

    /// Begins a stream at the first piece of text, at the end of the request, or when the client has waited for long.
    async fn stream(self, waiter: Waiter, mut deltas: Option<mpsc::UnboundedReceiver<String>>) -> Response {
        let mut first = None;
        let held = async {
            let piece = async {
                if let Some(deltas) = &mut deltas
                    && let Some(piece) = deltas.recv().await
                {
                    return piece;
                }
                // No text comes before the end.
                std::future::pending().await
            };
            tokio::select! {
                // Text comes before the end that follows it.
                biased;
                piece = piece => {
                    first = Some(piece);
                    None
                }
                finished = waiter.finished() => Some(finished),
            }
        };
        let finished = tokio::time::timeout(STATUS_HOLD, held).await.ok().flatten();
        let request_id = self.request_id.or_else(|| finished.as_ref().and_then(id_in));
        if let Some(Err(error)) = finished {
            return with_id(error.into_response(), request_id);
        }
        let PendingResponse { head, chat, .. } = self;
        let mut stream = ChatStream::new(head, chat.include_usage, chat.choices, deltas, waiter);
        stream.begin_with(first);
        with_id(stream.into_response(), request_id)
    }
}

/// Returns the id of the run in an answer or an error.
fn id_in(finished: &Finished) -> Option<HeaderValue> {
    let id = match finished {
        Ok(answers) => answers.first().map(|answer| answer.run_id.as_str()),
        Err(error) => error.details.get("run_id").and_then(Value::as_str),
    };
    HeaderValue::from_str(id?).ok()
}

fn with_id(mut response: Response, id: Option<HeaderValue>) -> Response {
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::http::Extensions;
    use slipform_types::Receipt;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::chat::response::{Answer, FinishReason};
    use crate::error::ApiError;
    use crate::failure::timed_out;
    use crate::in_flight::{Limits, RequestsInFlight};

    fn pending(body: &str) -> PendingResponse {
        PendingResponse::new(Arc::new(ChatRequest::parse(body.as_bytes()).unwrap()))
    }

    /// Begins a request that ends after this time.
    fn ending_after(time: Duration, finished: Finished) -> Waiter {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let limits = Limits { _permit: permit, _extensions: Extensions::new() };
        let work = async move {
            tokio::time::sleep(time).await;
            finished
        };
        RequestsInFlight::default().start(None, limits, Box::pin(work))
    }

    fn answered(text: &str) -> Finished {
        Ok(Arc::from(vec![Answer {
            run_id: "run_1".to_owned(),
            session_id: None,
            content: Some(text.to_owned()),
            refusal: None,
            tool_calls: Vec::new(),
            finish_reason: FinishReason::Stop,
            receipt: Receipt::default(),
        }]))
    }

    async fn events(response: Response) -> Vec<Value> {
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let text = std::str::from_utf8(&bytes).unwrap();
        let events = text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap());
        events.map(|event| serde_json::from_str(event).unwrap_or_else(|_| Value::from(event))).collect()
    }

    const STREAMED: &str =
        r#"{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hello."}]}"#;

    #[tokio::test(start_paused = true)]
    async fn silent_stream_is_kept_open_by_chunks_without_content() {
        let waiter = ending_after(Duration::from_secs(45), answered("Hello."));
        let response = pending(STREAMED).finish(waiter, None).await;
        assert_eq!(response.status(), 200);
        let events = events(response).await;
        let deltas: Vec<String> =
            events.iter().map(|event| event["choices"][0]["delta"].to_string()).collect();
        let role = r#"{"role":"assistant","content":""}"#;
        // The first chunk leaves after ten seconds, and one without content every ten seconds after it.
        assert_eq!(deltas, [role, "{}", "{}", "{}", r#"{"content":"Hello."}"#, "{}", "null"]);
        assert_eq!(events.last(), Some(&Value::from("[DONE]")));
    }

    #[tokio::test(start_paused = true)]
    async fn early_failure_of_a_stream_has_its_own_status() {
        let early = ending_after(Duration::from_secs(9), Err(timed_out()));
        assert_eq!(pending(STREAMED).finish(early, None).await.status(), 504);
        let late = ending_after(Duration::from_secs(11), Err::<_, ApiError>(timed_out()));
        let response = pending(STREAMED).finish(late, None).await;
        assert_eq!(response.status(), 200);
        let events = events(response).await;
        assert_eq!(events.last().unwrap()["error"]["code"], "deadline_exceeded");
    }
}

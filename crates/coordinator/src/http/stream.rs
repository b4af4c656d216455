//! Server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polling, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Bytes, Frame};
use slipform_api::Error;
use slipform_store::StoredEvent;
use slipform_types::EventKind;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;
use tokio::time::Instant;

use super::context::Context;
use super::guard::RequestToken;
use crate::app::{AllReader, Events, SessionReader, event_summary, event_text};

/// Number of chunks buffered for a slow client. The reader then pauses, and missed events are read from the
/// store. The write timeout closes the connection of a client that does not read at all.
const BUFFERED_CHUNKS_MAX: usize = 2;

/// Approximate size of a chunk. A single event may be larger.
const CHUNK_BYTES: usize = 64 * 1024;

/// First chunk: shows that the stream is open and sets the reconnect delay in milliseconds.
const OPENING: &str = "retry: 1000\n\n";

/// Comment sent while no events arrive.
const HEARTBEAT: &str = ": \n\n";

/// A journal reader.
pub(super) enum Reader {
    /// One session; event ids are `seq` numbers.
    Session(SessionReader),
    /// All sessions; event ids are positions among all events.
    All(AllReader),
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Events>, Error> {
        match self {
            Reader::Session(reader) => reader.next().await,
            Reader::All(reader) => reader.next().await,
        }
    }

    fn id(&self, event: &StoredEvent) -> String {
        match self {
            Reader::Session(_) => event.seq.to_string(),
            Reader::All(_) => format!("{}-{}", event.position.transaction, event.position.event),
        }
    }
}

/// The events of a stream, and their form.
#[derive(Debug, Default)]
pub(super) struct EventFilter {
    /// The types to send; `None` for all.
    pub(super) kinds: Option<Vec<EventKind>>,
    /// Whether only the envelope and the type are sent.
    pub(super) is_summary: bool,
}

impl EventFilter {
    fn passes(&self, event: &StoredEvent) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&event.kind))
    }

    fn data(&self, event: &StoredEvent) -> String {
        if self.is_summary { event_summary(event) } else { event_text(event) }
    }
}

/// Streams a reader's events until the client disconnects, its token is revoked, the server shuts down, or
/// the reader ends.
pub(super) fn stream(
    context: Arc<Context>,
    token: RequestToken,
    reader: Reader,
    filter: EventFilter,
) -> Response {
    let (sender, receiver) = mpsc::channel(BUFFERED_CHUNKS_MAX);
    tokio::spawn(async move {
        tokio::select! {
            () = feed(&context, reader, &filter, &sender) => {}
            () = sender.closed() => {}
            () = token.revoked(&context) => {}
            () = context.drain_started() => {}
        }
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Keeps proxies from buffering events.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::new(ChunkBody(receiver))).into_response()
}

async fn feed(context: &Context, mut reader: Reader, filter: &EventFilter, sender: &mpsc::Sender<Bytes>) {
    let mut sent = sender.send(Bytes::from_static(OPENING.as_bytes())).await;
    let mut last_sent = Instant::now();
    while sent.is_ok() {
        sent = match tokio::time::timeout(context.options.heartbeat, reader.next()).await {
            Ok(Ok(Some(events))) if events.iter().any(|event| filter.passes(event)) => {
                last_sent = Instant::now();
                send_events(&reader, filter, &events, sender).await
            }
            Ok(Ok(Some(events))) if last_sent.elapsed() < context.options.heartbeat || events.is_empty() => {
                continue;
            }
            // Events that the filter leaves out move the position of the client as well.
            Ok(Ok(Some(events))) => {
                last_sent = Instant::now();
                let id = events.last().map(|event| reader.id(event)).unwrap_or_default();
                sender.send(format!("id: {id}\n\n").into()).await
            }
            // The client reconnects with its last event id.
            Ok(Ok(None) | Err(_)) => return,
            Err(_) => sender.send(Bytes::from_static(HEARTBEAT.as_bytes())).await,
        };
    }
}

/// Sends events in chunks.
async fn send_events(
    reader: &Reader,
    filter: &EventFilter,
    events: &Events,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), SendError<Bytes>> {
    let mut chunk = String::new();
    for event in events.iter().filter(|event| filter.passes(event)) {
        chunk.push_str(&encode(&reader.id(event), event.kind, &filter.data(event)));
        if chunk.len() >= CHUNK_BYTES {
            sender.send(std::mem::take(&mut chunk).into()).await?;
        }
    }
    if chunk.is_empty() { Ok(()) } else { sender.send(chunk.into()).await }
}

fn encode(id: &str, kind: EventKind, data: &str) -> String {
    let mut text = format!("id: {id}\nevent: {}\n", kind.name());
    for line in data.lines() {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text
}

/// A response body fed by a channel.
struct ChunkBody(mpsc::Receiver<Bytes>);

impl hyper::body::Body for ChunkBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        polling: &mut Polling<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(polling).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

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
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;

use super::context::Context;
use super::guard::Pass;
use crate::app::{AllReader, Events, SessionReader, event_text};

/// How many pieces wait for a client that reads slowly. One that is further behind is not read for any more; what it
/// has missed is in the store. One that does not read at all loses its connection, and resumes.
const WAITING_MAX: usize = 2;

/// About how long a piece is, so that what waits stays small. A single event may be longer.
const PIECE_BYTES: usize = 64 * 1024;

/// What a client hears first: that it is heard, and when to come back where the connection breaks.
const HELLO: &str = "retry: 1000\n\n";

/// What a client hears when there is nothing to say.
const HEARTBEAT: &str = ": \n\n";

/// Something that is read and followed.
pub(super) enum Reader {
    /// One session; ids are numbers in its journal.
    Session(SessionReader),
    /// All sessions; ids are positions among all events.
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

/// A stream of what a reader reads, until the client leaves, its token is revoked, the server
/// goes down, or there is nothing more.
pub(super) fn stream(context: Arc<Context>, pass: Pass, reader: Reader) -> Response {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(async move {
        tokio::select! {
            () = feed(&context, reader, &sender) => {}
            () = sender.closed() => {}
            () = pass.revoked(&context) => {}
            () = context.drained() => {}
        }
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Proxies that gather what they pass on would keep events back.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::new(Pieces(receiver))).into_response()
}

async fn feed(context: &Context, mut reader: Reader, sender: &mpsc::Sender<Bytes>) {
    let mut said = sender.send(Bytes::from_static(HELLO.as_bytes())).await;
    while said.is_ok() {
        said = match tokio::time::timeout(context.options.heartbeat, reader.next()).await {
            Ok(Ok(Some(events))) => tell(&reader, &events, sender).await,
            // The client comes back with the last id that it has seen.
            Ok(Ok(None) | Err(_)) => return,
            Err(_) => sender.send(Bytes::from_static(HEARTBEAT.as_bytes())).await,
        };
    }
}

/// Hands events on, in pieces.
async fn tell(
    reader: &Reader,
    events: &Events,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), SendError<Bytes>> {
    let mut piece = String::new();
    for event in events {
        piece.push_str(&encoded(&reader.id(event), event));
        if piece.len() >= PIECE_BYTES {
            sender.send(std::mem::take(&mut piece).into()).await?;
        }
    }
    match piece.is_empty() {
        true => Ok(()),
        false => sender.send(piece.into()).await,
    }
}

fn encoded(id: &str, event: &StoredEvent) -> String {
    let data = event_text(event);
    let mut text = format!("id: {id}\nevent: {}\n", event_type(event));
    for line in data.lines() {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text
}

/// A body begins with its type.
fn event_type(event: &StoredEvent) -> &str {
    let kind = event.body.strip_prefix("{\"event_type\":\"").and_then(|rest| rest.split('"').next());
    kind.unwrap_or("message")
}

/// What comes out of a channel, as a body.
struct Pieces(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        polling: &mut Polling<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(polling).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

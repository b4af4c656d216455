//! Delivers a step on a connection: waits, sends, stalls or cuts.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::recorded::Recorded;
use crate::reply::{Flood, Reply, ReplyBody};
use crate::step::{Delivery, Step, StepKind};
use crate::wire::{FLOOD_BLOCK_BYTES, Framing, HttpWriter, Sent, head};

/// Whether the connection stays open after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    KeepAlive,
    Close,
}

/// Delivers a step. An error means that the client disconnected first. While waiting, the server reads into
/// `buffer`, because only a read detects that the client disconnected.
pub(crate) async fn deliver(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    step: &Step,
    request: &Recorded,
    index: usize,
) -> io::Result<Outcome> {
    let delivery = &step.delivery;
    if let Some(gate) = &delivery.gate {
        unless_disconnected(stream, buffer, gate.pass()).await?;
    }
    if let Some(delay) = delivery.delay {
        unless_disconnected(stream, buffer, tokio::time::sleep(delay)).await?;
    }
    let outcome = match Reply::new(step, request, index) {
        Some(reply) => send(stream, buffer, &reply, delivery).await?,
        None => without_reply(stream, buffer, step).await?,
    };
    if outcome == Outcome::Close && delivery.reset {
        stream.set_zero_linger()?;
    }
    Ok(outcome)
}

async fn without_reply(stream: &mut TcpStream, buffer: &mut Vec<u8>, step: &Step) -> io::Result<Outcome> {
    match &step.kind {
        StepKind::Raw(bytes) => {
            let delivery = &step.delivery;
            let mut writer =
                HttpWriter::new(stream, Framing::UntilClose, delivery.trickle, delivery.cut_body);
            writer.put(bytes).await?;
            writer.flush().await?;
        }
        StepKind::Hang => return Err(disconnected(stream, buffer).await),
        StepKind::Close | StepKind::Answer | StepKind::Status | StepKind::Flood(_) => {}
    }
    Ok(Outcome::Close)
}

async fn send(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    reply: &Reply,
    delivery: &Delivery,
) -> io::Result<Outcome> {
    let framing = if delivery.until_close { Framing::UntilClose } else { framing(&reply.body) };
    let mut writer = HttpWriter::new(stream, framing, delivery.trickle, delivery.cut_body);
    writer.head(&head(reply.status, &reply.content_type, &reply.headers, framing));
    let sent = match &reply.body {
        ReplyBody::Plain(body) => send_chunks(&mut writer, buffer, &[body], delivery).await?,
        ReplyBody::Stream(chunks) => send_chunks(&mut writer, buffer, chunks, delivery).await?,
        ReplyBody::Flood(flood) => send_flood(&mut writer, flood).await?,
    };
    if sent == Sent::Cut {
        writer.flush().await?;
        return Ok(Outcome::Close);
    }
    writer.end().await?;
    let closes = delivery.hang_up || framing == Framing::UntilClose;
    Ok(if closes { Outcome::Close } else { Outcome::KeepAlive })
}

fn framing(body: &ReplyBody) -> Framing {
    match body {
        ReplyBody::Plain(body) => Framing::Length(body.len() as u64),
        ReplyBody::Flood(Flood { streams: false, head, tail, bytes: Some(bytes), .. }) => {
            Framing::Length(head.len() as u64 + bytes + tail.len() as u64)
        }
        ReplyBody::Stream(_) | ReplyBody::Flood(_) => Framing::Chunked,
    }
}

async fn send_chunks(
    writer: &mut HttpWriter<'_>,
    buffer: &mut Vec<u8>,
    chunks: &[impl AsRef<[u8]>],
    delivery: &Delivery,
) -> io::Result<Sent> {
    for sent in 0..=chunks.len() {
        // A fault beyond the last chunk applies after it, so that a test with a wrong count still gets its
        // fault.
        let due = |after: usize| after.min(chunks.len()) == sent;
        for (_, gate) in delivery.gates.iter().filter(|(after, _)| due(*after)) {
            writer.flush().await?;
            unless_disconnected(writer.stream(), buffer, gate.pass()).await?;
        }
        if delivery.stall_after.is_some_and(due) {
            writer.flush().await?;
            return Err(disconnected(writer.stream(), buffer).await);
        }
        if delivery.cut_after.is_some_and(due) {
            return Ok(Sent::Cut);
        }
        let Some(chunk) = chunks.get(sent) else { break };
        if sent > 0 {
            writer.flush().await?;
        }
        if writer.put(chunk.as_ref()).await? == Sent::Cut {
            return Ok(Sent::Cut);
        }
    }
    Ok(Sent::Whole)
}

async fn send_flood(writer: &mut HttpWriter<'_>, flood: &Flood) -> io::Result<Sent> {
    if writer.put(&flood.head).await? == Sent::Cut {
        return Ok(Sent::Cut);
    }
    let (before, after) = &flood.delimiters;
    let mut left = flood.bytes;
    while left != Some(0) {
        let bytes = left.map_or(FLOOD_BLOCK_BYTES, |left| left.min(FLOOD_BLOCK_BYTES));
        let text = vec![b'x'; usize::try_from(bytes).unwrap_or(usize::MAX)];
        if writer.put(&[before.as_slice(), &text, after].concat()).await? == Sent::Cut {
            return Ok(Sent::Cut);
        }
        writer.flush().await?;
        left = left.map(|left| left - bytes);
    }
    writer.put(&flood.tail).await
}

async fn unless_disconnected(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    wait: impl Future<Output = ()>,
) -> io::Result<()> {
    tokio::select! {
        biased;
        () = wait => Ok(()),
        error = disconnected(stream, buffer) => Err(error),
    }
}

/// Completes when the client has disconnected.
async fn disconnected(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Error {
    loop {
        match stream.read_buf(buffer).await {
            Ok(0) => return io::ErrorKind::UnexpectedEof.into(),
            Ok(_) => {}
            Err(error) => return error,
        }
    }
}

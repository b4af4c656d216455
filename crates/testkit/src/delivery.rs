//! A step carried out on a connection: waiting, sending, stalling, cutting.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::recorded::Recorded;
use crate::reply::{EventBody, Flood, Reply};
use crate::step::{Delivery, Kind, Step};
use crate::wire::{FLOOD_BLOCK_BYTES, Framing, HttpWriter, Sent, head};

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    KeepAlive,
    Close,
}

/// Sends what the step says. An error means that the client went away first. What a client sends meanwhile is kept in
/// `buffer`: reading is how its departure is noticed.
pub(crate) async fn deliver(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    step: &Step,
    request: &Recorded,
    index: usize,
) -> io::Result<Outcome> {
    let delivery = &step.delivery;
    if let Some(gate) = &delivery.gate {
        unless_gone(stream, buffer, gate.pass()).await?;
    }
    if let Some(delay) = delivery.delay {
        unless_gone(stream, buffer, tokio::time::sleep(delay)).await?;
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
        Kind::Raw(bytes) => {
            let delivery = &step.delivery;
            let mut writer =
                HttpWriter::new(stream, Framing::UntilClose, delivery.trickle, delivery.cut_body);
            writer.put(bytes).await?;
            writer.flush().await?;
        }
        Kind::Hang => return Err(gone(stream, buffer).await),
        Kind::Close | Kind::Answer | Kind::Status | Kind::Flood(_) => {}
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
        EventBody::Plain(body) => send_chunks(&mut writer, buffer, &[body], delivery).await?,
        EventBody::Stream(chunks) => send_chunks(&mut writer, buffer, chunks, delivery).await?,
        EventBody::Flood(flood) => send_flood(&mut writer, flood).await?,
    };
    if sent == Sent::Cut {
        writer.flush().await?;
        return Ok(Outcome::Close);
    }
    writer.end().await?;
    let closes = delivery.hang_up || framing == Framing::UntilClose;
    Ok(if closes { Outcome::Close } else { Outcome::KeepAlive })
}

fn framing(body: &EventBody) -> Framing {
    match body {
        EventBody::Plain(body) => Framing::Length(body.len() as u64),
        EventBody::Flood(Flood { streams: false, head, tail, bytes: Some(bytes), .. }) => {
            Framing::Length(head.len() as u64 + bytes + tail.len() as u64)
        }
        EventBody::Stream(_) | EventBody::Flood(_) => Framing::Chunked,
    }
}

async fn send_chunks(
    writer: &mut HttpWriter<'_>,
    buffer: &mut Vec<u8>,
    chunks: &[impl AsRef<[u8]>],
    delivery: &Delivery,
) -> io::Result<Sent> {
    for sent in 0..=chunks.len() {
        // A fault beyond the last chunk happens after it: a test that miscounts still gets its fault.
        let due = |after: usize| after.min(chunks.len()) == sent;
        for (_, gate) in delivery.gates.iter().filter(|(after, _)| due(*after)) {
            writer.flush().await?;
            unless_gone(writer.stream(), buffer, gate.pass()).await?;
        }
        if delivery.stall_after.is_some_and(due) {
            writer.flush().await?;
            return Err(gone(writer.stream(), buffer).await);
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
    let (before, after) = &flood.around;
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

async fn unless_gone(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    wait: impl Future<Output = ()>,
) -> io::Result<()> {
    tokio::select! {
        biased;
        () = wait => Ok(()),
        error = gone(stream, buffer) => Err(error),
    }
}

/// Ends when the client has gone away.
async fn gone(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Error {
    loop {
        match stream.read_buf(buffer).await {
            Ok(0) => return io::ErrorKind::UnexpectedEof.into(),
            Ok(_) => {}
            Err(error) => return error,
        }
    }
}

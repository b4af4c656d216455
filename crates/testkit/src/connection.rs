//! Serves one connection: reads a request, answers it, then reads the next.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::delivery::{Outcome, deliver};
use crate::recorded::Recorded;
use crate::state::State;
use crate::wire::{Framing, head};

/// Maximum size of a request's head, to expose a runaway test; answered with 431.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Maximum size of a request's body, for the same reason; answered with 413.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

enum Received {
    Request(Recorded, bool),
    /// An invalid request, with the status to answer.
    Bad(u16),
    Ended,
}

/// Serves a client until it disconnects or a step closes the connection.
pub(crate) async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let mut buffer = Vec::with_capacity(8 * 1024);
    loop {
        match receive(&mut stream, &mut buffer).await {
            Ok(Received::Request(request, keep_alive)) => {
                let request = Arc::new(request);
                let assigned = state.assign(&request);
                match deliver(&mut stream, &mut buffer, &assigned.step, &request, assigned.index).await {
                    Ok(Outcome::KeepAlive) if keep_alive => {}
                    Ok(_) => return,
                    Err(_) => return state.record_abandoned(),
                }
            }
            Ok(Received::Bad(status)) => {
                let text = head(status, "text/plain", &[], Framing::Length(0));
                // The client may have disconnected already.
                let _ = stream.write_all(text.as_bytes()).await;
                return;
            }
            Ok(Received::Ended) | Err(_) => return,
        }
    }
}

async fn receive(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Received> {
    let head_end = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        if buffer.len() > HEAD_BYTES_MAX {
            return Ok(Received::Bad(431));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(Received::Ended);
        }
    };
    let Some(head) = Head::parse(&buffer[..head_end]) else {
        return Ok(Received::Bad(400));
    };
    if head.header("transfer-encoding").is_some() {
        return Ok(Received::Bad(411));
    }
    let Ok(length) = head.header("content-length").unwrap_or("0").parse::<usize>() else {
        return Ok(Received::Bad(400));
    };
    if length > BODY_BYTES_MAX {
        return Ok(Received::Bad(413));
    }
    let end = head_end + length;
    while buffer.len() < end {
        buffer.reserve(end - buffer.len());
        if stream.read_buf(buffer).await? == 0 {
            return Ok(Received::Ended);
        }
    }
    let raw = buffer[head_end..end].to_vec();
    buffer.drain(..end);
    let keep_alive = head.keep_alive();
    let body = serde_json::from_slice(&raw).unwrap_or(Value::Null);
    let Head { method, path, headers, .. } = head;
    Ok(Received::Request(Recorded { method, path, headers, body, raw }, keep_alive))
}

struct Head {
    method: String,
    path: String,
    version: String,
    headers: Vec<(String, String)>,
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ').map(str::to_owned);
        let (method, path, version) = (words.next()?, words.next()?, words.next()?);
        let headers = lines
            .take_while(|line| !line.is_empty())
            .map(|line| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned())));
        Some(Self { method, path, version, headers: headers.collect::<Option<_>>()? })
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn keep_alive(&self) -> bool {
        let asks_to_close =
            self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        self.version == "HTTP/1.1" && !asks_to_close
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

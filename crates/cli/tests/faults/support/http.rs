//! A minimal HTTP/1.0 client that reports every broken connection as an error.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The longest wait for a response; longer than a coordinator waits for its database.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(25);

/// A response with a JSON body; an empty body is `null`.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Result<Response> {
    exchange(address, "GET", path, "", "")
}

pub(crate) fn post(address: SocketAddr, path: &str, headers: &str, body: &Value) -> Result<Response> {
    exchange(address, "POST", path, headers, &body.to_string())
}

/// Sends a request on a new connection. Fails if the connection breaks before the whole response has arrived.
fn exchange(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Result<Response> {
    let mut lines = send_request(address, method, path, headers, body, RESPONSE_TIMEOUT)?;
    let (status, length) = read_head(&mut lines)?;
    let mut body = vec![0; length.context("no content-length")?];
    lines.read_exact(&mut body)?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
    Ok(Response { status, body })
}

/// Opens a connection and sends an HTTP/1.0 request, whose response ends with the connection.
fn send_request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
    timeout: Duration,
) -> Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(timeout))?;
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )?;
    Ok(BufReader::new(stream))
}

/// Reads the head of a response and returns the status and the content length, if given.
fn read_head(lines: &mut BufReader<TcpStream>) -> Result<(u16, Option<usize>)> {
    let (mut status, mut length) = (None, None);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            bail!("the connection ended before the end of the response head");
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Ok((status.context("no status")?, length));
        }
        match line.split_once(": ") {
            None => status = line.split(' ').nth(1).and_then(|word| word.parse().ok()),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = Some(value.parse()?)
            }
            Some(_) => {}
        }
    }
}

/// A server-sent event.
#[derive(Debug)]
pub(crate) struct StreamEvent {
    pub(crate) id: String,
    pub(crate) data: Value,
}

/// An event stream. Dropping it closes the connection.
pub(crate) struct Stream(BufReader<TcpStream>);

impl Stream {
    /// Opens a stream after the event `last`. Each read waits at most `timeout`.
    pub(crate) fn open(
        address: SocketAddr,
        path: &str,
        last: Option<&str>,
        timeout: Duration,
    ) -> Result<Stream> {
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let mut lines = send_request(address, "GET", path, &last, "", timeout)?;
        match read_head(&mut lines)? {
            (200, _) => Ok(Stream(lines)),
            (status, _) => bail!("status {status} for {path}"),
        }
    }

    /// Returns the next event; `None` after the timeout, at the end of the stream, or after an incomplete event.
    pub(crate) fn next(&mut self) -> Option<StreamEvent> {
        let (mut id, mut data) = (None, None);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok().filter(|read| *read > 0).is_none() || !line.ends_with('\n') {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", value)) => id = Some(value.to_owned()),
                Some(("data", value)) => data = Some(serde_json::from_str(value).unwrap()),
                _ if line.trim_end().is_empty() => {
                    if let (Some(id), Some(data)) = (id.take(), data.take()) {
                        return Some(StreamEvent { id, data });
                    }
                }
                _ => {}
            }
        }
    }
}

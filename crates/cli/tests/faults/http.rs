//! As much of HTTP as a client needs that is told everything about its connections.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// How long an answer may take: longer than a coordinator waits for its database.
const ANSWER_WAIT: Duration = Duration::from_secs(25);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Result<Answer> {
    ask(address, "GET", path, "", "")
}

pub(crate) fn post(address: SocketAddr, path: &str, headers: &str, body: &Value) -> Result<Answer> {
    ask(address, "POST", path, headers, &body.to_string())
}

/// Asks on a connection of its own; an error where it breaks before the whole answer is there.
fn ask(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Result<Answer> {
    let mut lines = begin(address, method, path, headers, body, ANSWER_WAIT)?;
    let (status, length) = read_head(&mut lines)?;
    let mut body = vec![0; length.context("no content-length")?];
    lines.read_exact(&mut body)?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
    Ok(Answer { status, body })
}

/// Sends a request of HTTP 1.0, whose answers end with their connection.
fn begin(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
    wait: Duration,
) -> Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(wait))?;
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )?;
    Ok(BufReader::new(stream))
}

/// The status, and how long the body is where it is said.
fn read_head(lines: &mut BufReader<TcpStream>) -> Result<(u16, Option<usize>)> {
    let (mut status, mut length) = (None, None);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            bail!("the connection ended in the middle of an answer");
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

/// An event of a stream.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) id: String,
    pub(crate) data: Value,
}

/// A stream of events. It is cut by dropping it.
pub(crate) struct Stream(BufReader<TcpStream>);

impl Stream {
    /// Follows from after an event on. Nothing is waited for longer than `wait`.
    pub(crate) fn open(
        address: SocketAddr,
        path: &str,
        last: Option<&str>,
        wait: Duration,
    ) -> Result<Stream> {
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let mut lines = begin(address, "GET", path, &last, "", wait)?;
        match read_head(&mut lines)? {
            (200, _) => Ok(Stream(lines)),
            (status, _) => bail!("status {status} for {path}"),
        }
    }

    /// The next event; none where the stream is silent or has ended. Half of an event is none.
    pub(crate) fn next(&mut self) -> Option<Told> {
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
                        return Some(Told { id, data });
                    }
                }
                _ => {}
            }
        }
    }
}

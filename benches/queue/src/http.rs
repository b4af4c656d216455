//! The leanest client that keeps a connection: a request is written at once, an answer is read to its length.

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer: its status and its body.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a str,
}

/// A connection that is used again and again.
pub(crate) struct Connection {
    stream: TcpStream,
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address).await.context("connecting to the server")?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, sent: Vec::with_capacity(2_048), received: Vec::with_capacity(8_192) })
    }

    /// Sends a body and waits for the answer.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<Answer<'_>> {
        self.sent.clear();
        write!(
            self.sent,
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        self.exchange().await
    }

    async fn exchange(&mut self) -> Result<Answer<'_>> {
        self.stream.write_all(&self.sent).await?;
        self.received.clear();
        let (status, start, end) = loop {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some((status, start, length)) = head(&self.received)? {
                break (status, start, start + length);
            }
        };
        while self.received.len() < end {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                bail!("the server closed the connection within an answer");
            }
        }
        Ok(Answer { status, body: std::str::from_utf8(&self.received[start..end])? })
    }

    /// Asks for something.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer<'_>> {
        self.sent.clear();
        write!(self.sent, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
        self.exchange().await
    }

    /// The same where only success will do.
    pub(crate) async fn must(&mut self, path: &str, body: &str) -> Result<&str> {
        let answer = self.post(path, body).await?;
        if !(200..300).contains(&answer.status) {
            bail!("POST {path} was answered {}: {}", answer.status, answer.body);
        }
        Ok(answer.body)
    }

    /// Asks for a stream; what comes is read from the socket.
    pub(crate) async fn stream(mut self, path: &str) -> Result<TcpStream> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        Ok(self.stream)
    }
}

/// The status of an answer, where its body begins and how long it is; none while the head is not there.
fn head(bytes: &[u8]) -> Result<Option<(u16, usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end])?;
    let status =
        text.get(9..12).and_then(|status| status.parse().ok()).context("an answer without a status")?;
    let length = text.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(Ok(0), str::parse).context("a content-length that is no number")?;
    Ok(Some((status, end + 4, length)))
}

/// The text of a member, where it is a string without escapes: ids are. Finding it costs less than reading all.
pub(crate) fn member<'a>(json: &'a str, name: &str) -> Result<&'a str> {
    let key = format!("\"{name}\":\"");
    let start = json.find(&key).with_context(|| format!("no {name} in {json}"))? + key.len();
    let length = json[start..].find('"').context("a string without an end")?;
    Ok(&json[start..start + length])
}

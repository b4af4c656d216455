//! A minimal HTTP/1.1 client with keep-alive, which uses little CPU time beside the measured server.

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The status and the body of a response.
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a str,
}

/// A connection that is reused for many requests.
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

    /// Sends a POST request and waits for the response.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<Response<'_>> {
        self.sent.clear();
        write!(
            self.sent,
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        self.exchange().await
    }

    async fn exchange(&mut self) -> Result<Response<'_>> {
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
                bail!("the server closed the connection within a response");
            }
        }
        Ok(Response { status, body: std::str::from_utf8(&self.received[start..end])? })
    }

    /// Sends a GET request and waits for the response.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Response<'_>> {
        self.sent.clear();
        write!(self.sent, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
        self.exchange().await
    }

    /// Sends a POST request and returns the body; any status but 2xx is an error.
    pub(crate) async fn post_ok(&mut self, path: &str, body: &str) -> Result<&str> {
        let response = self.post(path, body).await?;
        if !(200..300).contains(&response.status) {
            bail!("POST {path} returned {}: {}", response.status, response.body);
        }
        Ok(response.body)
    }

    /// Requests an event stream and returns the socket, from which the caller reads the response.
    pub(crate) async fn stream(mut self, path: &str) -> Result<TcpStream> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        Ok(self.stream)
    }
}

/// Returns the status of a response and the start and length of its body; `None` while the head is incomplete.
fn head(bytes: &[u8]) -> Result<Option<(u16, usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end])?;
    let status =
        text.get(9..12).and_then(|status| status.parse().ok()).context("a response without a status")?;
    let length = text.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(Ok(0), str::parse).context("content-length is not a number")?;
    Ok(Some((status, end + 4, length)))
}

/// Returns the value of a string member without escapes, such as an id. A search costs less CPU time than parsing.
pub(crate) fn member<'a>(json: &'a str, name: &str) -> Result<&'a str> {
    let key = format!("\"{name}\":\"");
    let start = json.find(&key).with_context(|| format!("no {name} in {json}"))? + key.len();
    let length = json[start..].find('"').context("a string without an end")?;
    Ok(&json[start..start + length])
}

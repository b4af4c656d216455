//! A minimal HTTP client that exposes the raw protocol.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// A raw HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the status and returns the JSON body.
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }

    /// Asserts that this is a complete error response with this status and code, and returns its message.
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let body = self.json();
        assert_eq!(body["error"], code, "{self:?}");
        assert_eq!(body["status_code"], status, "{self:?}");
        assert!(body.get("details").is_some(), "{self:?}");
        if matches!(status, 429 | 503) {
            assert!(self.header("retry-after").is_some(), "{self:?}");
        }
        body["message"].as_str().filter(|message| !message.is_empty()).expect("a message").to_owned()
    }
}

/// A request built by hand.
#[derive(Debug, Clone)]
pub(crate) struct TestRequest {
    pub(crate) address: SocketAddr,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
}

impl TestRequest {
    pub(crate) fn new(address: SocketAddr, method: &str, path: &str) -> TestRequest {
        let headers = vec![("host".to_owned(), address.to_string())];
        TestRequest { address, method: method.to_owned(), path: path.to_owned(), headers, body: None }
    }

    /// Sets a header; an empty value removes it.
    pub(crate) fn header(mut self, name: &str, value: &str) -> TestRequest {
        self.headers.retain(|(key, _)| key != name);
        if !value.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub(crate) fn token(self, token: &str) -> TestRequest {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn text(mut self, body: &str) -> TestRequest {
        self.body = Some(body.to_owned());
        self.header("content-length", &body.len().to_string())
    }

    pub(crate) fn json(self, body: &Value) -> TestRequest {
        self.text(&body.to_string()).header("content-type", "application/json")
    }

    /// The request line and headers.
    pub(crate) fn head(&self) -> String {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text + "\r\n"
    }

    pub(crate) async fn send(self) -> Answer {
        let request = self.header("connection", "close");
        let mut connection = Connection::open(request.address).await;
        connection.write(&(request.head() + request.body.as_deref().unwrap_or_default())).await;
        connection.answer().await
    }

    /// Sends the request and reads the head of a stream.
    pub(crate) async fn follow(self) -> Stream {
        let mut connection = Connection::open(self.address).await;
        connection.write(&(self.head() + self.body.as_deref().unwrap_or_default())).await;
        let (status, headers) = connection.read_head().await;
        assert_eq!(status, 200, "{headers:?}");
        let kind = headers.iter().find(|(name, _)| name == "content-type").map(|(_, kind)| kind.as_str());
        assert_eq!(kind, Some("text/event-stream"));
        Stream { connection, text: String::new() }
    }
}

/// A TCP connection to the server.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Connection {
        Connection { stream: BufReader::new(TcpStream::connect(address).await.unwrap()) }
    }

    pub(crate) async fn write(&mut self, text: &str) {
        // The server may have closed after a rejection; its response can still be read.
        let _ = self.stream.get_mut().write_all(text.as_bytes()).await;
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
        }
    }

    pub(crate) async fn read_head(&mut self) -> (u16, Vec<(String, String)>) {
        let first = self.line().await.expect("an answer");
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let mut headers = Vec::new();
        while let Some(line) = self.line().await.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').expect("a header");
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        (status, headers)
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        let (status, headers) = self.read_head().await;
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, length)| length.parse().expect("a length"));
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        Answer { status, headers, text: String::from_utf8(body).unwrap() }
    }

    /// Whether the server has closed the connection.
    pub(crate) async fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]).await, Ok(0) | Err(_))
    }

    async fn chunk(&mut self) -> Option<String> {
        let length = usize::from_str_radix(&self.line().await?, 16).expect("a chunk's length");
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).await.ok()?;
        bytes.truncate(length);
        (length > 0).then(|| String::from_utf8(bytes).unwrap())
    }
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SseEvent {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) data: Value,
}

/// A stream of server-sent events.
pub(crate) struct Stream {
    connection: Connection,
    text: String,
}

impl Stream {
    /// Returns the next block between two empty lines, including comments.
    pub(crate) async fn next_block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            self.text.push_str(&self.connection.chunk().await?);
        }
    }

    /// Returns the next event, or `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<SseEvent> {
        loop {
            let block = self.next_block().await?;
            let field = |name: &str| {
                block.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
            };
            if let (Some(id), Some(event), Some(data)) = (field("id:"), field("event:"), field("data:")) {
                return Some(SseEvent { id, event, data: serde_json::from_str(&data).unwrap() });
            }
        }
    }

    pub(crate) async fn take(&mut self, count: usize) -> Vec<SseEvent> {
        let mut all = Vec::new();
        while all.len() < count {
            all.push(self.next().await.expect("another event"));
        }
        all
    }
}

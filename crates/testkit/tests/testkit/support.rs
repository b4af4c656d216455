//! A client on a bare socket, so that tests check the exact bytes.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use slipform_testkit::{Script, ScriptedServer};

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const COMPLETIONS: &str = "/v1/completions";
pub(crate) const MESSAGES: &str = "/v1/messages";

/// Read timeout, longer than any reply here takes, so that a test fails instead of hanging.
const READ_MAX: Duration = Duration::from_secs(30);

pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

/// The end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As its framing announced.
    Proper,
    /// Before its announced end.
    Cut,
    Reset,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The HTTP chunks of a chunked body.
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) end: End,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Returns the stream's events as name and data. Expects only well-formed lines.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let text = self.text().replace("\r\n", "\n");
        let mut events = Vec::new();
        for block in text.split("\n\n").filter(|block| !block.is_empty()) {
            let field = |name: &str| {
                let line = block.lines().find_map(|line| line.strip_prefix(name))?;
                Some(line.strip_prefix(' ').unwrap_or(line).to_owned())
            };
            if let Some(data) = field("data:") {
                events.push((field("event:").unwrap_or_default(), data));
            }
        }
        events
    }

    /// Returns the events' data as JSON, without `[DONE]`.
    pub(crate) fn values(&self) -> Vec<Value> {
        let data = self.events().into_iter().map(|(_, data)| data).filter(|data| data != "[DONE]");
        data.map(|data| serde_json::from_str(&data).unwrap()).collect()
    }

    /// Concatenates the strings at this pointer in all events.
    pub(crate) fn joined(&self, pointer: &str) -> String {
        self.values().iter().filter_map(|value| value.pointer(pointer)?.as_str().map(str::to_owned)).collect()
    }
}

impl Client {
    pub(crate) fn connect(server: &ScriptedServer) -> Self {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(READ_MAX)).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) {
        let body = body.to_string();
        let request =
            format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        self.send_bytes(request.as_bytes());
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.send_bytes(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        self.reply()
    }

    pub(crate) fn ask(&mut self, path: &str, body: &Value) -> Reply {
        self.post(path, body);
        self.reply()
    }

    /// Returns a line without its terminator; `None` at the end of the connection.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").map(str::to_owned)
    }

    pub(crate) fn head(&mut self) -> Reply {
        let first = self.line().unwrap();
        let status = first.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
        let mut headers = Vec::new();
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").unwrap();
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        Reply { status, headers, body: Vec::new(), chunks: Vec::new(), end: End::Proper }
    }

    pub(crate) fn reply(&mut self) -> Reply {
        let mut reply = self.head();
        if reply.header("transfer-encoding") == Some("chunked") {
            loop {
                match self.chunk() {
                    Ok(chunk) if chunk.is_empty() => break,
                    Ok(chunk) => reply.chunks.push(chunk),
                    Err((partial, end)) => {
                        reply.chunks.push(partial);
                        reply.end = end;
                        break;
                    }
                }
            }
            reply.body = reply.chunks.concat();
        } else if let Some(length) = reply.header("content-length") {
            let length = length.parse().unwrap();
            (reply.body, reply.end) = self.bytes(length);
        } else {
            self.reader.read_to_end(&mut reply.body).unwrap();
        }
        reply
    }

    /// Returns one HTTP chunk, empty at the end of the body, or the part that was received.
    pub(crate) fn chunk(&mut self) -> Result<Vec<u8>, (Vec<u8>, End)> {
        let size = self.line().ok_or((Vec::new(), End::Cut))?;
        let (mut bytes, end) = self.bytes(usize::from_str_radix(&size, 16).unwrap() + 2);
        if end != End::Proper {
            return Err((bytes, end));
        }
        bytes.truncate(bytes.len() - 2);
        Ok(bytes)
    }

    fn bytes(&mut self, count: usize) -> (Vec<u8>, End) {
        let mut bytes = Vec::new();
        let read = (&mut self.reader).take(count as u64).read_to_end(&mut bytes);
        let end = match read {
            Ok(_) if bytes.len() == count => End::Proper,
            Ok(_) => End::Cut,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => End::Reset,
            Err(error) => panic!("{error}"),
        };
        (bytes, end)
    }

    /// Returns everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, End) {
        let mut bytes = Vec::new();
        match self.reader.read_to_end(&mut bytes) {
            Ok(_) => (bytes, End::Proper),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => (bytes, End::Reset),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sends one request and returns the reply.
pub(crate) fn ask(script: impl Into<Script>, path: &str, body: &Value) -> Reply {
    let server = ScriptedServer::start(script);
    Client::connect(&server).ask(path, body)
}

pub(crate) fn plain() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]})
}

pub(crate) fn streamed() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": true})
}

//! Requests to the gateway, and servers with scripted backends.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use slipform_testkit::{Script, ScriptedServer};

use crate::support::{Project, Server, serve};

/// The schema of structured answers.
pub(crate) fn person() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name", "age"],
        "additionalProperties": false,
    })
}

pub(crate) fn is_person(value: &Value) -> bool {
    let has_members = value.as_object().is_some_and(|members| members.len() == 2);
    has_members && value["name"].is_string() && value["age"].as_u64().is_some()
}

pub(crate) fn with_schema() -> Value {
    let schema = json!({"name": "person", "strict": true, "schema": person()});
    json!({"response_format": {"type": "json_schema", "json_schema": schema}})
}

pub(crate) fn with_tool(choice: &Value) -> Value {
    let function = json!({"name": "save_person", "description": "Saves.", "parameters": person()});
    json!({"tools": [{"type": "function", "function": function}], "tool_choice": choice})
}

/// A response with its headers in lower case.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Returns the events of a stream.
    pub(crate) fn events(&self) -> Vec<String> {
        let events = self.text.split("\n\n").filter(|event| !event.is_empty());
        events.map(|event| event.strip_prefix("data: ").expect("only data lines").to_owned()).collect()
    }

    pub(crate) fn chunks(&self) -> Vec<Value> {
        let events = self.events().into_iter().filter(|event| event != "[DONE]");
        events.map(|event| serde_json::from_str(&event).unwrap()).collect()
    }
}

/// Sends the body of a request with further headers.
pub(crate) fn open(address: &str, body: &Value, headers: &str) -> TcpStream {
    open_with_key(address, body, "sk-unknown", headers)
}

/// Sends the body of a request with a key and further headers.
pub(crate) fn open_with_key(address: &str, body: &Value, key: &str, headers: &str) -> TcpStream {
    send(address, &body.to_string(), key, headers)
}

fn send(address: &str, body: &str, key: &str, headers: &str) -> TcpStream {
    let host = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Authorization: Bearer {key}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

/// Reads a response until `is_enough`, and returns what it read.
pub(crate) fn read_until(stream: &mut TcpStream, is_enough: impl Fn(&str) -> bool) -> String {
    let (mut received, mut buffer) = (String::new(), [0; 4096]);
    while !is_enough(&received) {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the response ended early: {received}");
        received.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    received
}

pub(crate) fn read(mut stream: TcpStream) -> Answered {
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, text) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answered { status, head: head.to_ascii_lowercase(), text: text.to_owned() }
}

pub(crate) fn post(address: &str, body: &Value) -> Answered {
    read(open(address, body, ""))
}

/// Sends a body that need not be what a client would write.
pub(crate) fn post_text(address: &str, body: &str) -> Answered {
    read(send(address, body, "sk-unknown", ""))
}

/// Returns a request with further members.
pub(crate) fn chat(model: &str, more: &Value) -> Value {
    let mut body = json!({"model": model, "messages": [{"role": "user", "content": "Ada is 36."}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

pub(crate) fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

/// Starts a server whose backend answers these steps.
pub(crate) fn gateway(name: &str, script: impl Into<Script>) -> (Server, String, ScriptedServer) {
    let upstream = ScriptedServer::start(script);
    let project = Project::new(name).backend(&upstream.base_url());
    let (server, address) = serve(&project, &[]);
    (server, address, upstream)
}

/// Returns settings with two backends that do not repeat failed calls, and further sections. The first is the default.
pub(crate) fn two_backends(
    first: (&str, &ScriptedServer),
    second: (&str, &ScriptedServer),
    more: &str,
) -> String {
    let backend = |(name, server): (&str, &ScriptedServer)| {
        let url = server.base_url();
        format!("[backends.{name}]\nkind = \"openai\"\nbase_url = \"{url}\"\nmodel = \"m\"\nretries = 0\n")
    };
    format!("default_backend = \"{}\"\n{}{}{more}", first.0, backend(first), backend(second))
}

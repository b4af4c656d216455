//! OpenTelemetry spans of a run, as a collector receives them.
#![cfg(feature = "otel")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use crate::support::Project;
use serde_json::json;
use slipform_testkit::{ScriptedServer, Step};

/// Starts an OTLP collector that passes each request on through a channel.
fn collector() -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let request = request(&mut stream.unwrap());
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (address, received)
}

/// Reads a request, answers it with 200, and returns its head in lower case and its body.
fn request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4_096]);
    let end = |bytes: &[u8]| bytes.windows(4).position(|window| window == b"\r\n\r\n");
    loop {
        let read = stream.read(&mut chunk).unwrap();
        bytes.extend_from_slice(&chunk[..read]);
        let Some(end) = end(&bytes) else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let length: usize = length.trim().parse().unwrap();
        if bytes.len() >= end + 4 + length {
            let response = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(response.as_bytes()).unwrap();
            return (head, bytes[end + 4..].to_vec());
        }
    }
}

#[test]
fn collector_receives_run_call_and_tool_spans_without_content() {
    let (address, received) = collector();
    let server = ScriptedServer::start([
        Step::tool("fs_read", json!({"path": "secret.txt"})),
        Step::text("The word is marzipan."),
    ]);
    let project = Project::new("spans")
        .backend(&server.base_url())
        .file("agents/reader.yaml", "name: reader\ntools: [fs:read]\n")
        .file("secret.txt", "marzipan\n")
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &address);
    let ran = project.run(&["run", "reader", "-p", "Which word is in secret.txt?"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "The word is marzipan.\n"), "{}", ran.stderr);
    let (head, body) = received.recv().unwrap();
    assert!(head.starts_with("post /v1/traces"), "{head}");
    let text = String::from_utf8_lossy(&body);
    for name in [
        "invoke_agent reader",
        "execute_tool fs:read",
        "gen_ai.conversation.id",
        "gen_ai.usage.output_tokens",
    ] {
        assert!(text.contains(name), "{name} is missing in {text}");
    }
    assert!(text.contains("chat "), "{text}");
    assert!(!text.contains("marzipan") && !text.contains("Which word"), "{text}");
}

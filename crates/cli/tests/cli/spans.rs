//! OpenTelemetry spans of a run, as a collector receives them.
#![cfg(feature = "otel")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{Project, serve};
use serde_json::json;
use slipform_testkit::{Script, ScriptedServer, Step};

/// The longest wait for an export. The exporter sends every five seconds and when the process ends.
const EXPORT_TIME_MAX: Duration = Duration::from_secs(60);

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
        assert!(read > 0, "the request ended early: {}", String::from_utf8_lossy(&bytes));
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

/// Returns what was exported until all of `parts` have arrived. A slow run exports its spans in several requests.
fn exported_with(received: &mpsc::Receiver<(String, Vec<u8>)>, parts: &[&[u8]]) -> Vec<u8> {
    let mut exported: Vec<u8> = Vec::new();
    let is_missing =
        |exported: &[u8], part: &[u8]| !exported.windows(part.len()).any(|window| window == part);
    while let Some(missing) = parts.iter().find(|part| is_missing(&exported, part)) {
        let (head, body) = received.recv_timeout(EXPORT_TIME_MAX).unwrap_or_else(|error| {
            let exported = String::from_utf8_lossy(&exported);
            panic!("{error}: no {:?} in {exported}", String::from_utf8_lossy(missing))
        });
        assert!(head.starts_with("post /v1/traces"), "{head}");
        exported.extend(body);
    }
    exported
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
    let names = [
        "invoke_agent reader",
        "execute_tool fs:read",
        "gen_ai.conversation.id",
        "gen_ai.usage.output_tokens",
        "chat ",
    ];
    let exported = exported_with(&received, &names.map(str::as_bytes));
    let text = String::from_utf8_lossy(&exported);
    assert!(!text.contains("marzipan") && !text.contains("Which word"), "{text}");
}

#[test]
fn spans_continue_the_trace_of_the_caller_and_pass_it_on() {
    let (address, received) = collector();
    let upstream = ScriptedServer::start(Script::new([Step::text("Hello.")]).repeat_last());
    let project = Project::new("spans-parent")
        .backend(&upstream.base_url())
        .file("agents/greeter.yaml", "name: greeter\n")
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &address);
    let (server, url) = serve(&project, &[]);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let chat = json!({"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}).to_string();
    let run = json!({"agent_name": "greeter", "prompt": "Hi"}).to_string();
    for (path, body) in [("/v1/chat/completions", chat), ("/runs?wait=30", run)] {
        let host = url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             traceparent: 00-{trace}-b7ad6b7169203331-01\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.0 200"), "{response}");
    }
    // The backend gets the position of the span of its call, not that of the caller.
    for request in upstream.requests() {
        let parent = request.header("traceparent").unwrap();
        assert!(
            parent.starts_with(&format!("00-{trace}-")) && !parent.contains("b7ad6b7169203331"),
            "{parent}"
        );
    }
    assert_eq!(upstream.requests().len(), 2);
    server.shut_down();
    let bytes: Vec<u8> =
        (0..16).map(|at| u8::from_str_radix(&trace[at * 2..at * 2 + 2], 16).unwrap()).collect();
    exported_with(&received, &[&bytes]);
}

//! Tests servers that misbehave over HTTP.

use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_tools::mcp::Limits;
use slipform_types::McpServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{SHORT, call, failure, open, shown, tool_context};

/// Returns the raw HTTP response to a message; empty for no response.
type Answer = fn(&Value) -> String;

/// Starts a server that answers every message this way.
async fn serve(answer: Answer) -> McpServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp?key=sk-1234567890", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(respond(connection, answer));
        }
    });
    McpServer::Url { url }
}

async fn respond(mut connection: TcpStream, answer: Answer) -> std::io::Result<()> {
    let mut read = Vec::new();
    let message = loop {
        if connection.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        // A message is complete when it parses; a request without a body ends with its head.
        match serde_json::from_str(body) {
            Ok(message) => break message,
            Err(_) if !head.starts_with("POST") => break Value::Null,
            Err(_) => {}
        }
    };
    let response = answer(&message);
    if response.is_empty() {
        // Send no response, and keep the connection open until the client closes it.
        connection.read_to_end(&mut read).await?;
    }
    connection.write_all(response.as_bytes()).await?;
    connection.shutdown().await
}

fn page(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn result(message: &Value, result: Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    page("200 OK", "application/json", &body)
}

/// Answers the handshake and the list of tools correctly; `called` answers calls.
fn correct(message: &Value, called: impl FnOnce(&Value) -> String) -> String {
    match message["method"].as_str() {
        Some("initialize") => {
            let version = &message["params"]["protocolVersion"];
            let info = json!({"name": "demo", "version": "1"});
            result(
                message,
                json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}),
            )
        }
        Some("tools/list") => {
            result(message, json!({"tools": [{"name": "plain", "inputSchema": {"type": "object"}}]}))
        }
        Some("tools/call") => called(message),
        _ => page("202 Accepted", "text/plain", ""),
    }
}

async fn check_refused(answer: Answer, limits: impl FnOnce(&mut Limits), expect: Expect) {
    let server = serve(answer).await;
    let McpServer::Url { url } = &server else { return };
    let mut context = tool_context();
    limits(&mut context.limits);
    let words = failure(&open(&server, &context).await.unwrap_err());
    assert!(!words.contains("sk-1234567890"), "{words}");
    let address = url.split_once("/mcp").unwrap().0;
    expect.assert_eq(&words.replace(address, "http://ADDRESS"));
}

async fn check_call(answer: Answer, limits: impl FnOnce(&mut Limits), expect: Expect) {
    let server = serve(answer).await;
    let McpServer::Url { url } = &server else { return };
    let mut context = tool_context();
    limits(&mut context.limits);
    let tools = open(&server, &context).await.unwrap();
    let words = shown(&call(&tools, "demo:plain", json!({})).await);
    expect.assert_eq(&words.replace(url.split_once("/mcp").unwrap().0, "http://ADDRESS"));
}

#[tokio::test]
async fn invalid_urls_are_refused() {
    for (url, expect) in [
        (
            "not an address",
            expect!["Server: the MCP server 'demo' has an invalid URL; write it as http://HOST:PORT/PATH"],
        ),
        (
            "file:///etc/passwd",
            expect![
                "Server: the MCP server 'demo' has an address of the kind 'file'; there are http and https"
            ],
        ),
    ] {
        let server = McpServer::Url { url: url.to_owned() };
        expect.assert_eq(&failure(&open(&server, &tool_context()).await.unwrap_err()));
    }
}

#[tokio::test]
async fn unreachable_server_is_reported_without_its_password() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = McpServer::Url { url: format!("http://me:secret@{address}/mcp") };
    let words = failure(&open(&server, &tool_context()).await.unwrap_err());
    expect!["Server: the MCP server 'demo' cannot be reached at http://ADDRESS/mcp: Connection refused (os error 111)"].assert_eq(&words.replace(&address.to_string(), "ADDRESS"));
}

#[tokio::test]
async fn endpoint_that_does_not_speak_mcp_is_refused() {
    check_refused(|_| page("200 OK", "text/html", "<h1>Welcome</h1>"), |_| (), expect!["Server: the MCP server 'demo' answered with text/html instead of MCP at http://ADDRESS/mcp: <h1>Welcome</h1>"]).await;
    check_refused(
        |_| page("200 OK", "application/json", "{\"hello\": 1}"),
        |_| (),
        expect![[
            r#"Server: the MCP server 'demo' answered with something that is no message of MCP: {"hello": 1}"#
        ]],
    )
    .await;
    check_refused(
        |_| page("404 Not Found", "text/plain", "nothing here"),
        |_| (),
        expect!["Server: the MCP server 'demo' answered 404 Not Found at http://ADDRESS/mcp: nothing here"],
    )
    .await;
    check_refused(
        |_| page("401 Unauthorized", "application/json", "{\"error\": \"who is sk-1234567890\"}"),
        |_| (),
        expect![[r#"Server: the MCP server 'demo' answered 401 Unauthorized at http://ADDRESS/mcp: {"error": "who is [redacted]"}"#]],
    )
    .await;
    check_refused(
        |_| page("500 Internal Server Error", "text/plain", "oops"),
        |_| (),
        expect![
            "Server: the MCP server 'demo' answered 500 Internal Server Error at http://ADDRESS/mcp: oops"
        ],
    )
    .await;
    check_refused(|_| String::new(), |limits| limits.connect = SHORT, expect!["Server: the MCP server 'demo' did not answer within 0.1 s before it had introduced itself as an MCP server"]).await;
}

#[tokio::test]
async fn list_that_is_never_sent_times_out() {
    let silent = |message: &Value| match message["method"].as_str() {
        Some("tools/list") => String::new(),
        _ => correct(message, |_| String::new()),
    };
    check_refused(
        silent,
        |limits| limits.connect = Duration::from_secs(2),
        expect!["Server: the MCP server 'demo' did not answer within 2 s while it was listing its tools"],
    )
    .await;
}

#[tokio::test]
async fn redirects_are_not_followed() {
    check_refused(
        |_| "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/other\r\ncontent-length: 0\r\n\r\n".to_owned(),
        |_| (),
        expect!["Server: the MCP server 'demo' redirects to 'http://127.0.0.1:9/other'; put the final address into the blueprint"],
    )
    .await;
}

#[tokio::test]
async fn content_is_converted_to_results() {
    let text = |message: &Value| {
        correct(message, |message| result(message, json!({"content": [{"type": "text", "text": "done"}]})))
    };
    check_call(text, |_| (), expect![[r#""done""#]]).await;
    let contents = |message: &Value| {
        correct(message, |message| {
            let blob = json!({"uri": "file:///a.bin", "blob": "AAAA", "mimeType": "application/zip"});
            let text = json!({"uri": "file:///a.txt", "text": "green", "mimeType": "text/plain"});
            result(
                message,
                json!({"content": [
                    {"type": "audio", "data": "AAA=", "mimeType": "audio/wav"},
                    {"type": "resource", "resource": blob},
                    {"type": "resource", "resource": text},
                    {"type": "resource_link", "uri": "file:///b", "name": "b"},
                ]}),
            )
        })
    };
    check_call(contents, |_| (), expect![[r#"[{"type":"audio","mimeType":"audio/wav","bytes":2},{"type":"resource","uri":"file:///a.bin","mimeType":"application/zip","bytes":3},{"type":"resource","uri":"file:///a.txt","mimeType":"text/plain","text":"green"},{"type":"resource_link","uri":"file:///b","name":"b"}]"#]]).await;
    let silent_failure = |message: &Value| {
        correct(message, |message| result(message, json!({"content": [], "isError": true})))
    };
    check_call(silent_failure, |_| (), expect!["Failed: the tool 'demo:plain' failed without saying why"])
        .await;
}

#[tokio::test]
async fn invalid_responses_are_errors() {
    let limits = |limits: &mut Limits| limits.message_bytes_max = 100_000;
    let long = |message: &Value| {
        correct(message, |message| {
            result(message, json!({"content": [{"type": "text", "text": "x".repeat(200_000)}]}))
        })
    };
    check_call(
        long,
        limits,
        expect!["Failed: the result of 'demo:plain' is larger than 100000 bytes; ask for less of it"],
    )
    .await;
    let long_stream = |message: &Value| {
        correct(message, |_| {
            page("200 OK", "text/event-stream", &format!("data: {}\n\n", "x".repeat(200_000)))
        })
    };
    check_call(
        long_stream,
        limits,
        expect!["Failed: the result of 'demo:plain' is larger than 100000 bytes; ask for less of it"],
    )
    .await;
    let cut_stream = |message: &Value| {
        correct(message, |_| page("200 OK", "text/event-stream", "event: message\ndata: {\"jso"))
    };
    check_call(
        cut_stream,
        limits,
        expect!["Server: the MCP server 'demo' broke off the connection while 'demo:plain' was being called"],
    )
    .await;
    let broken = |message: &Value| {
        correct(message, |_| {
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{".to_owned()
        })
    };
    check_call(broken, limits, expect!["Server: the MCP server 'demo' broke off its answer: end of file before message length reached (while 'demo:plain' was being called)"]).await;
    let gone = |message: &Value| correct(message, |_| page("503 Service Unavailable", "text/plain", "busy"));
    check_call(gone, limits, expect!["Server: the MCP server 'demo' answered 503 Service Unavailable at http://ADDRESS/mcp: busy (while 'demo:plain' was being called)"]).await;
    let silent = |message: &Value| correct(message, |_| String::new());
    check_call(
        silent,
        |limits| limits.call = SHORT,
        expect!["Timeout: the tool 'demo:plain' took longer than 0.1 s and was stopped"],
    )
    .await;
}

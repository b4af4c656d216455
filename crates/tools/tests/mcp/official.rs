//! Tests published servers: the reference time server and a server made with the official Python SDK.

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_process::{Program, Running};
use slipform_testkit::mcp_python;
use slipform_tools::{Tool, Toolbox};
use slipform_types::McpServer;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{call, command, open, shown, tool_context};

/// Starts the SDK's server over HTTP. Dropping the first value ends it.
async fn on_http(python: &str) -> (Running, McpServer) {
    let context = tool_context();
    let program = Program {
        argv: vec![python.to_owned(), "official.py".to_owned(), "http".to_owned()],
        folder: context.folder,
        environment: context.environment,
        access: None,
    };
    let (running, pipes) = program.spawn().unwrap();
    let mut url = String::new();
    BufReader::new(pipes.stdout).read_line(&mut url).await.unwrap();
    (running, McpServer::Url { url: url.trim().to_owned() })
}

async fn check(tools: &[Arc<dyn Tool>], name: &str, arguments: Value, expect: Expect) {
    expect.assert_eq(&shown(&call(tools, name, arguments).await));
}

/// Checks the SDK's server over any transport.
async fn check_all(server: &McpServer) {
    let mut context = tool_context();
    context.limits.result_bytes_max = 10_000;
    context.limits.message_bytes_max = 100_000;
    let tools = open(server, &context).await.unwrap();
    check_definition(&tools);
    check_results(&tools).await;
    check_limits(&tools).await;
    let arguments = json!({"a": 1, "b": 1});
    let (one, two) =
        tokio::join!(call(&tools, "demo:add", arguments.clone()), call(&tools, "demo:add", arguments));
    assert_eq!(one.unwrap(), two.unwrap());
}

/// Checks that a definition keeps the server's schemas.
fn check_definition(tools: &[Arc<dyn Tool>]) {
    let add = serde_json::to_value(tools[0].definition()).unwrap();
    expect![[r#"
        {
          "name": "demo:add",
          "description": "Adds two numbers.",
          "parameters": {
            "properties": {
              "a": {
                "title": "A",
                "type": "integer"
              },
              "b": {
                "title": "B",
                "type": "integer"
              }
            },
            "required": [
              "a",
              "b"
            ],
            "type": "object",
            "title": "addArguments"
          },
          "output": {
            "properties": {
              "total": {
                "description": "both together",
                "title": "Total",
                "type": "integer"
              },
              "terms": {
                "items": {
                  "type": "integer"
                },
                "title": "Terms",
                "type": "array"
              }
            },
            "required": [
              "total",
              "terms"
            ],
            "type": "object",
            "title": "Sum"
          },
          "hash": "sha256:89ab75cb3940242f8504618fb88a27c457c437a73687b0b5a80595b455cd5ad7"
        }"#]]
    .assert_eq(&format!("{add:#}"));
}

/// Checks results and failures of calls.
async fn check_results(tools: &[Arc<dyn Tool>]) {
    check(tools, "demo:add", json!({"a": 2, "b": 3}), expect![[r#"{"total":5,"terms":[2,3]}"#]]).await;
    check(tools, "demo:greet", json!({"name": "Ada"}), expect![[r#""Hello, Ada!""#]]).await;
    check(tools, "demo:greet", json!({"name": "\"5\": {}"}), expect![[r#""Hello, \"5\": {}!""#]]).await;
    check(tools, "demo:words", json!({"text": "red green"}), expect![[r#"["red","green"]"#]]).await;
    check(tools, "demo:words", json!({"text": ""}), expect!["[]"]).await;
    check(
        tools,
        "demo:picture",
        json!({}),
        expect![[r#"{"type":"image","mimeType":"image/png","bytes":15}"#]],
    )
    .await;
    check(
        tools,
        "demo:fail",
        json!({"reason": "no paint left"}),
        expect!["Failed: Error executing tool fail: no paint left"],
    )
    .await;
}

/// Checks that oversized results fail and the server stays usable.
async fn check_limits(tools: &[Arc<dyn Tool>]) {
    check(
        tools,
        "demo:repeat",
        json!({"text": "ab", "times": 10_000}),
        expect!["Failed: the result of 'demo:repeat' is larger than 10000 bytes; ask for less of it"],
    )
    .await;
    check(
        tools,
        "demo:repeat",
        json!({"text": "ab", "times": 1_000_000}),
        expect!["Failed: the result of 'demo:repeat' is larger than 100000 bytes; ask for less of it"],
    )
    .await;
    check(tools, "demo:repeat", json!({"text": "ab", "times": 2}), expect![[r#""abab""#]]).await;
}

#[tokio::test]
async fn sdk_server_works_over_stdio() {
    let Some(python) = mcp_python() else { return };
    let server = command(&[&python, "official.py"]);
    check_all(&server).await;
    let tools = open(&server, &tool_context()).await.unwrap();
    check(
        &tools,
        "demo:leave",
        json!({}),
        expect!["Server: the MCP server 'demo' ended (exit status: 9) while 'demo:leave' was being called"],
    )
    .await;
}

#[tokio::test]
async fn sdk_server_works_over_http() {
    let Some(python) = mcp_python() else { return };
    let (_running, server) = on_http(&python).await;
    check_all(&server).await;
    let tools = open(&server, &tool_context()).await.unwrap();
    check(
        &tools,
        "demo:leave",
        json!({}),
        expect!["Server: the MCP server 'demo' broke off the connection while 'demo:leave' was being called"],
    )
    .await;
}

#[tokio::test]
async fn several_servers_connect_at_once() {
    let Some(python) = mcp_python() else { return };
    let (_running, http) = on_http(&python).await;
    let mut servers = BTreeMap::from([
        ("web".to_owned(), http),
        ("clock".to_owned(), command(&[&python, "-m", "mcp_server_time", "--local-timezone", "UTC"])),
    ]);
    let tools = Toolbox::connect(&servers, &tool_context()).await.unwrap();
    let toolbox = Toolbox::new(tools);
    let names: Vec<String> = toolbox.definitions().into_iter().map(|definition| definition.name).collect();
    expect!["clock:get_current_time clock:convert_time web:add web:greet web:words web:picture web:fail web:repeat web:leave"].assert_eq(&names.join(" "));
    let time = json!({"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let converted = toolbox.call("clock:convert_time", &time).await.unwrap();
    assert_eq!(converted["target"]["timezone"], "Asia/Tokyo");
    let bad = json!({"timezone": "Mars/Olympus"});
    expect!["Failed: Error executing tool get_current_time: Invalid timezone: 'No time zone found with key Mars/Olympus'"].assert_eq(&shown(&toolbox.call("clock:get_current_time", &bad).await));

    servers.insert("absent".to_owned(), command(&["./absent"]));
    servers.insert("broken".to_owned(), command(&["./broken"]));
    let error = Toolbox::connect(&servers, &tool_context()).await.unwrap_err().to_string();
    assert!(error.starts_with("the MCP server 'absent' is a program that does not start"), "{error}");
}

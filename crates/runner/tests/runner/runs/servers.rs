//! Tools of MCP servers end to end: the server is started or reached, a model calls its tools, and the
//! results return to the model.

use std::path::Path;

use serde_json::{Value, json};
use slipform_process::{Program, Running, common_environment};
use slipform_testkit::{ScriptedServer, mcp_python};
use slipform_types::{BackendKind, RunErrorType, StructuredOutput};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::contexts::{TestRun, rung, test_run};
use crate::support::model::{ModelTurn, answers};
use crate::support::outcome::{completed, failed, names, run};

/// Returns the folder of the servers that the tests of `slipform-tools` use.
fn folder() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/tests/servers").to_str().unwrap().to_owned()
}

/// Starts the server over HTTP. Dropping the first value ends it.
async fn on_http(python: &str) -> (Running, Value) {
    let program = Program {
        argv: vec![python.to_owned(), "official.py".to_owned(), "http".to_owned()],
        folder: folder().into(),
        environment: common_environment(&|name| std::env::var(name).ok()),
        access: None,
    };
    let (running, pipes) = program.spawn().unwrap();
    let mut url = String::new();
    BufReader::new(pipes.stdout).read_line(&mut url).await.unwrap();
    (running, json!({"url": url.trim()}))
}

fn agent(protocol: &str, mcp: &Value, tools: &[&str]) -> Value {
    json!({
        "name": "adder", "protocol": protocol, "mcp_servers": {"demo": mcp}, "tools": tools,
        "output_schema": {
            "type": "object", "required": ["total", "greeting"],
            "properties": {"total": {"type": "integer"}, "greeting": {"type": "string"}},
        },
    })
}

/// Starts a model that adds, greets, fails once, and submits what it received.
fn model() -> ScriptedServer {
    ScriptedServer::respond(|request, _| {
        let received = answers(request);
        match &received[..] {
            [] => ModelTurn::call("demo:add", json!({"a": 2, "b": 3})),
            [_] => ModelTurn::call("demo:greet", json!({"name": "Ada"})),
            [_, _] => ModelTurn::call("demo:fail", json!({"reason": "no paint left"})),
            [sum, greeting, failure, ..] => {
                assert_eq!(failure, "Error: Error executing tool fail: no paint left");
                let sum: Value = serde_json::from_str(sum).unwrap();
                ModelTurn::Submit(json!({"total": sum["total"], "greeting": greeting}))
            }
        }
        .step(request)
    })
}

fn adding(protocol: &str, mcp: &Value, tools: &[&str], server: &ScriptedServer) -> TestRun {
    let ladder = vec![rung("default", BackendKind::OpenAi, server, StructuredOutput::Auto)];
    let context = test_run(&agent(protocol, mcp, tools), "Add and greet.", json!({}), ladder);
    TestRun { project_dir: folder(), ..context }
}

async fn check(mcp: &Value) {
    for protocol in ["tools", "actions"] {
        let server = model();
        let (outcome, journal) = run(&adding(protocol, mcp, &[], &server)).await;
        let expected = json!({"total": 5, "greeting": "Hello, Ada!"});
        assert_eq!(completed(outcome).result_data, Some(expected), "{protocol}");
        let happened = names(&journal.events());
        assert!(happened.contains(&"post_tool demo:fail failed".to_owned()), "{protocol}: {happened:?}");
    }
    // If the blueprint names tools of a server, only those are offered.
    let server = ScriptedServer::respond(|request, _| match answers(request).len() {
        0 => ModelTurn::call("demo:fail", json!({"reason": "x"})).step(request),
        _ => ModelTurn::Submit(json!({"total": 0, "greeting": answers(request)[0]})).step(request),
    });
    let success = completed(run(&adding("tools", mcp, &["demo:add", "demo:greet"], &server)).await.0);
    let message = "Error: There is no tool 'demo_fail'. The tools are: demo_add, demo_greet, submit_result.";
    assert_eq!(success.result_data.unwrap()["greeting"], message);
}

#[tokio::test]
async fn server_started_as_a_program_serves_tools() {
    let Some(python) = mcp_python() else { return };
    check(&json!({"command": [python, "official.py"]})).await;
}

#[tokio::test]
async fn server_reached_over_http_serves_tools() {
    let Some(python) = mcp_python() else { return };
    let (_running, mcp) = on_http(&python).await;
    check(&mcp).await;
}

#[tokio::test]
async fn missing_server_fails_the_run_before_the_first_call() {
    let server = model();
    let (outcome, _) = run(&adding("tools", &json!({"command": ["./absent"]}), &[], &server)).await;
    let failure = failed(outcome);
    assert_eq!(failure.error.kind, RunErrorType::ToolFailed);
    assert!(failure.error.message.starts_with("the MCP server 'demo'"), "{}", failure.error.message);
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn secret_in_the_stderr_of_a_server_is_redacted() {
    let server = model();
    let complains = json!({"command": ["sh", "-c", "echo \"bad key $API_KEY\" >&2; exit 1"]});
    let environment = vec![("API_KEY".to_owned(), "s3cret-value-of-mine".to_owned())];
    let context = TestRun { environment: environment.into(), ..adding("tools", &complains, &[], &server) };
    let (outcome, journal) = run(&context).await;
    let message = failed(outcome).error.message;
    assert!(message.contains("bad key [redacted]"), "{message}");
    assert!(!serde_json::to_string(&journal.events()).unwrap().contains("s3cret"));
}

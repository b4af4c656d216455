//! Tests servers that misbehave on standard input and output.

use expect_test::{Expect, expect};
use serde_json::json;
use slipform_testkit::{Grandchild, TestFolder, WAIT_MAX};
use slipform_tools::mcp::{Limits, ToolContext};

use crate::support::{SHORT, call, command, failure, open, scripted, servers, shown, tool_context};

/// Returns a context whose environment holds a secret.
fn with_token() -> ToolContext {
    let mut context = tool_context();
    context.environment.push(("TOKEN".to_owned(), "sk-1234567890".to_owned()));
    context
}

/// Checks the error of connecting to a server with this fault.
async fn check_refused(fault: &str, limits: impl FnOnce(&mut Limits), expect: Expect) {
    let mut context = tool_context();
    limits(&mut context.limits);
    let error = open(&scripted(&[fault]), &context).await.unwrap_err();
    expect.assert_eq(&failure(&error));
}

/// Checks the outcome of a call to the only tool of a server with this fault.
async fn check_call(fault: &str, expect: Expect) {
    let tools = open(&scripted(&[fault]), &with_token()).await.unwrap();
    expect.assert_eq(&shown(&call(&tools, "demo:plain", json!({})).await));
}

#[tokio::test]
async fn program_that_fails_the_handshake_is_refused() {
    check_refused("ends", |_| (), expect!["Server: the MCP server 'demo' ended (exit status: 7) before it had introduced itself as an MCP server: needs a licence"]).await;
    check_refused("ends-at-greeting", |_| (), expect!["Server: the MCP server 'demo' ended (exit status: 2) before it had introduced itself as an MCP server: no configuration"]).await;
    check_refused(
        "refuses-greeting",
        |_| (),
        expect!["Server: the MCP server 'demo' refused the greeting: too old"],
    )
    .await;
    check_refused("ends-at-list", |_| (), expect!["Server: the MCP server 'demo' ended (exit status: 4) while it was listing its tools: no tools today"]).await;
}

#[tokio::test]
async fn silent_program_times_out() {
    check_refused("hangs", |limits| limits.connect = SHORT, expect!["Server: the MCP server 'demo' did not answer within 0.1 s before it had introduced itself as an MCP server"]).await;
}

#[tokio::test]
async fn missing_program_is_refused() {
    let error = open(&command(&["./no-such-server"]), &tool_context()).await.unwrap_err();
    let words = failure(&error).replace(&*servers().to_string_lossy(), "FOLDER");
    expect!["Server: the MCP server 'demo' is a program that does not start: './no-such-server' cannot be started: FOLDER/no-such-server does not exist (relative paths start at FOLDER)"].assert_eq(&words);
    let error = open(&command(&[]), &tool_context()).await.unwrap_err();
    expect!["Server: the MCP server 'demo' is a program that does not start: the command is empty; name a program to start"].assert_eq(&failure(&error));
}

#[tokio::test]
async fn stray_output_of_a_hanging_program_is_quoted() {
    let mut context = tool_context();
    context.limits.connect = SHORT;
    // The program may need longer than a tenth of a second to print; double the limit until it has.
    let words = loop {
        let error = open(&scripted(&["garbage"]), &context).await.unwrap_err();
        let words = failure(&error);
        if words.contains("Welcome") || context.limits.connect > WAIT_MAX {
            break words.replace(&context.limits.connect.as_secs_f64().to_string(), "N");
        }
        context.limits.connect *= 2;
    };
    expect!["Server: the MCP server 'demo' did not answer within N s before it had introduced itself as an MCP server (its standard output, which is for MCP alone, has: Welcome to the server!)"].assert_eq(&words);
}

#[tokio::test]
async fn stray_output_among_the_messages_is_ignored() {
    check_call("noise", expect![[r#""done""#]]).await;
}

#[tokio::test]
async fn unusable_tools_are_refused() {
    check_refused("bad-input", |_| (), expect!["Server: the MCP server 'demo' has a tool 'plain' that cannot be used: its inputSchema is no JSON Schema: $.properties.a.type: 'strin' is not one of ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']"]).await;
    check_refused("bad-output", |_| (), expect!["Server: the MCP server 'demo' has a tool 'plain' that cannot be used: its outputSchema is no JSON Schema: $.required: must be an array, not a string ('a')"]).await;
    check_refused("outside-reference", |_| (), expect!["Server: the MCP server 'demo' has a tool 'plain' that cannot be used: its inputSchema is no JSON Schema: $.$ref: the reference 'http://127.0.0.1:9/schema.json' cannot be resolved: only references inside the schema are followed; copy the definition into $defs"]).await;
    check_refused(
        "twins",
        |_| (),
        expect!["Server: the MCP server 'demo' has two tools of the name 'plain'"],
    )
    .await;
    check_refused("bad-name", |_| (), expect!["Server: the MCP server 'demo' has a tool 'two words' that cannot be used: names have 1 to 128 characters and no spaces"]).await;
    check_refused("long-description", |_| (), expect!["Server: the MCP server 'demo' has a tool 'plain' that cannot be used: its description is longer than 32768 bytes"]).await;
    check_refused("long-schema", |_| (), expect!["Server: the MCP server 'demo' has a tool 'plain' that cannot be used: its inputSchema is longer than 262144 bytes"]).await;
}

#[tokio::test]
async fn oversized_lists_are_refused() {
    check_refused(
        "many",
        |_| (),
        expect!["Server: the MCP server 'demo' has more than 128 tools; let it offer fewer"],
    )
    .await;
    check_refused(
        "endless",
        |_| (),
        expect!["Server: the MCP server 'demo' lists its tools on more than 64 pages"],
    )
    .await;
    check_refused(
        "long-list",
        |limits| limits.message_bytes_max = 100_000,
        expect!["Server: the MCP server 'demo' sent a list of tools longer than 100000 bytes"],
    )
    .await;
}

#[tokio::test]
async fn list_on_several_pages_is_read_completely() {
    let tools = open(&scripted(&["pages"]), &tool_context()).await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.definition().name.as_str()).collect();
    assert_eq!(names, ["demo:page0", "demo:page1", "demo:page2"]);
}

#[tokio::test]
async fn call_to_a_server_that_exits_fails() {
    check_call("dies", expect!["Server: the MCP server 'demo' ended (exit status: 3) while 'demo:plain' was being called: lost the database, token [redacted]"]).await;
    check_call(
        "closes",
        expect!["Server: the MCP server 'demo' ended (exit status: 0) while 'demo:plain' was being called"],
    )
    .await;
}

#[tokio::test]
async fn invalid_answers_are_errors() {
    check_call("refuses", expect!["Failed: no such colour; token [redacted]"]).await;
    check_call("nonsense", expect!["Server: the MCP server 'demo' answered with something that MCP does not know while 'demo:plain' was being called"]).await;
    check_call("breaks-promise", expect!["Server: the MCP server 'demo' answered the call of 'demo:plain' with a result that breaks the tool's own outputSchema: $.colour: required property is missing"]).await;
    check_call("no-structure", expect!["Server: the MCP server 'demo' answered the call of 'demo:plain' without the structuredContent that the tool's outputSchema promises"]).await;
}

#[tokio::test]
async fn long_error_text_is_shortened() {
    let tools = open(&scripted(&["shouts"]), &tool_context()).await.unwrap();
    let words = shown(&call(&tools, "demo:plain", json!({})).await);
    assert!(words.starts_with("Failed: no! no! ") && words.ends_with("no! …"), "{words}");
    assert!(words.len() < 3_000, "{} bytes", words.len());
}

#[tokio::test]
async fn calls_after_the_server_died_repeat_the_error() {
    let tools = open(&scripted(&["dies"]), &with_token()).await.unwrap();
    let first = shown(&call(&tools, "demo:plain", json!({})).await);
    assert_eq!(shown(&call(&tools, "demo:plain", json!({})).await), first);
}

#[tokio::test]
async fn oversized_result_fails_and_the_server_stays_usable() {
    let mut context = tool_context();
    context.limits.result_bytes_max = 10_000;
    context.limits.message_bytes_max = 100_000;
    let tools = open(&scripted(&["huge"]), &context).await.unwrap();
    let words = async |bytes: usize| shown(&call(&tools, "demo:plain", json!({"bytes": bytes})).await);
    expect!["Failed: the result of 'demo:plain' is larger than 10000 bytes; ask for less of it"]
        .assert_eq(&words(20_000).await);
    expect!["Failed: the result of 'demo:plain' is larger than 100000 bytes; ask for less of it"]
        .assert_eq(&words(1_000_000).await);
    expect![[r#""done""#]].assert_eq(&words(0).await);
}

#[tokio::test]
async fn call_over_its_time_limit_is_cancelled_at_the_server() {
    let folder = TestFolder::new("mcp");
    let pipe = folder.named_pipe("cancelled");
    let mut context = tool_context();
    context.limits.call = SHORT;
    let path = pipe.to_string_lossy().into_owned();
    let tools = open(&scripted(&["hangs-in-call", &path]), &context).await.unwrap();
    expect!["Timeout: the tool 'demo:plain' took longer than 0.1 s and was stopped"]
        .assert_eq(&shown(&call(&tools, "demo:plain", json!({})).await));
    let (sender, received) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || sender.send(std::fs::read_to_string(pipe).unwrap()));
    let received = tokio::time::timeout(WAIT_MAX, received).await.unwrap().unwrap();
    assert_eq!(received, "cancelled");
}

#[tokio::test]
async fn server_ends_when_its_last_tool_is_dropped() {
    let mut server = Grandchild::new();
    let path = server.pipe().to_string_lossy().into_owned();
    let mut tools = open(&scripted(&["stays", &path]), &tool_context()).await.unwrap();
    server.wait_for_start().await;
    let last = tools.pop().unwrap();
    drop(tools);
    expect![[r#""done""#]].assert_eq(&shown(&last.call(&json!({})).await));
    drop(last);
    server.wait_for_exit().await;
}

#[tokio::test]
async fn definitions_do_not_change_after_connecting() {
    let tools = open(&scripted(&["changes"]), &tool_context()).await.unwrap();
    let before = tools[0].definition().clone();
    expect![[r#""done""#]].assert_eq(&shown(&call(&tools, "demo:plain", json!({})).await));
    assert_eq!(tools[0].definition(), &before);
    let again = open(&scripted(&["changes"]), &tool_context()).await.unwrap();
    assert_eq!(again[0].definition().hash, before.hash);
}

#[tokio::test]
async fn requests_of_the_server_are_declined() {
    check_call("asks", expect![[r#"{"answers":[{"code":-32601,"message":"sampling/createMessage"},{"action":"decline"},{"roots":[]}]}"#]]).await;
}

#[tokio::test]
async fn arguments_that_are_no_object_are_refused() {
    let tools = open(&scripted(&["plain"]), &tool_context()).await.unwrap();
    expect!["Arguments: the arguments of 'demo:plain' have to be an object"]
        .assert_eq(&shown(&call(&tools, "demo:plain", json!([1])).await));
}

#[tokio::test]
async fn server_program_writes_no_protected_path() {
    let folder = TestFolder::with_files("mcp-confined", &[("agents/a.yaml", ""), ("src/a.txt", "")]);
    let script = "echo evil > agents/evil.yaml; echo fine > src/b.txt; echo secret > .env; exit 3";
    for has_free_programs in [false, true] {
        let mut context = ToolContext { folder: folder.path().to_owned(), ..tool_context() };
        context.policy.has_free_programs = has_free_programs;
        open(&command(&["sh", "-c", script]), &context).await.unwrap_err();
        let is_confined = !has_free_programs && slipform_process::is_confinement_available();
        assert_eq!(folder.join("agents/evil.yaml").exists(), !is_confined);
        assert!(folder.join("src/b.txt").exists());
    }
}

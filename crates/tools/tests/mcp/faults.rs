//! Programs that are no good servers.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};

use expect_test::{Expect, expect};
use serde_json::json;
use slipform_tools::mcp::{Limits, Surroundings};

use crate::support::{
    SHORT, WAIT_MAX, call, command, failure, named_pipe, open, scripted, servers, shown, surroundings,
};

/// The surroundings in which the server knows something that is nobody's business.
fn with_token() -> Surroundings {
    let mut surroundings = surroundings();
    surroundings.environment.push(("TOKEN".to_owned(), "sk-1234567890".to_owned()));
    surroundings
}

/// What is said about a server that cannot be used.
async fn refused(fault: &str, limits: impl FnOnce(&mut Limits), expect: Expect) {
    let mut surroundings = surroundings();
    limits(&mut surroundings.limits);
    let error = open(&scripted(&[fault]), &surroundings).await.unwrap_err();
    expect.assert_eq(&failure(&error));
}

/// What comes of a call to a server's only tool.
async fn called(fault: &str, expect: Expect) {
    let tools = open(&scripted(&[fault]), &with_token()).await.unwrap();
    expect.assert_eq(&shown(&call(&tools, "demo:plain", json!({})).await));
}

#[tokio::test]
async fn programs_that_do_not_become_servers() {
    refused("ends", |_| (), expect!["Server: the MCP server 'demo' ended (exit status: 7) before it had introduced itself as an MCP server: needs a licence"]).await;
    refused("ends-at-greeting", |_| (), expect!["Server: the MCP server 'demo' ended (exit status: 2) before it had introduced itself as an MCP server: no configuration"]).await;
    refused(
        "refuses-greeting",
        |_| (),
        expect!["Server: the MCP server 'demo' refused the greeting: too old"],
    )
    .await;
    refused("ends-at-list", |_| (), expect!["Server: the MCP server 'demo' ended (exit status: 4) while it was listing its tools: no tools today"]).await;
}

#[tokio::test]
async fn programs_that_are_silent() {
    refused("hangs", |limits| limits.connect = SHORT, expect!["Server: the MCP server 'demo' did not answer within 0.1 s before it had introduced itself as an MCP server"]).await;
}

#[tokio::test]
async fn a_program_that_is_not_there() {
    let error = open(&command(&["./no-such-server"]), &surroundings()).await.unwrap_err();
    let words = failure(&error).replace(&*servers().to_string_lossy(), "FOLDER");
    expect!["Server: the MCP server 'demo' is a program that does not start: './no-such-server' cannot be started: there is no file FOLDER/no-such-server (relative paths start at FOLDER)"].assert_eq(&words);
    let error = open(&command(&[]), &surroundings()).await.unwrap_err();
    expect!["Server: the MCP server 'demo' is a program that does not start: there is no program to start: the command is empty"].assert_eq(&failure(&error));
}

#[tokio::test]
async fn a_program_that_chats_before_it_hangs_is_quoted() {
    let mut surroundings = surroundings();
    surroundings.limits.connect = SHORT;
    // Whether it has said its piece within a tenth of a second depends on the machine: it gets more until it
    // has.
    let words = loop {
        let error = open(&scripted(&["garbage"]), &surroundings).await.unwrap_err();
        let words = failure(&error);
        if words.contains("Welcome") || surroundings.limits.connect > WAIT_MAX {
            break words.replace(&surroundings.limits.connect.as_secs_f64().to_string(), "N");
        }
        surroundings.limits.connect *= 2;
    };
    expect!["Server: the MCP server 'demo' did not answer within N s before it had introduced itself as an MCP server (its standard output, which is for MCP alone, has: Welcome to the server!)"].assert_eq(&words);
}

#[tokio::test]
async fn noise_among_the_messages_does_not_matter() {
    called("noise", expect![[r#""done""#]]).await;
}

#[tokio::test]
async fn tools_that_cannot_be_used() {
    refused("bad-input", |_| (), expect!["Server: the MCP server 'demo' has a tool 'plain' that cannot be used: its inputSchema is no JSON Schema: $.properties.a.type: 'strin' is not one of ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']"]).await;
    refused("bad-output", |_| (), expect!["Server: the MCP server 'demo' has a tool 'plain' that cannot be used: its outputSchema is no JSON Schema: $.required: must be an array, not a string ('a')"]).await;
    refused("outside-reference", |_| (), expect!["Server: the MCP server 'demo' has a tool 'plain' that cannot be used: its inputSchema is no JSON Schema: $.$ref: the reference 'http://127.0.0.1:9/schema.json' cannot be resolved: only references inside the schema are followed; copy the definition into $defs"]).await;
    refused("twins", |_| (), expect!["Server: the MCP server 'demo' has two tools of the name 'plain'"])
        .await;
    refused("bad-name", |_| (), expect!["Server: the MCP server 'demo' has a tool 'two words' that cannot be used: names have 1 to 128 characters and no spaces"]).await;
    refused("long-description", |_| (), expect!["Server: the MCP server 'demo' has a tool 'plain' that cannot be used: its description is longer than 32768 bytes"]).await;
    refused("long-schema", |_| (), expect!["Server: the MCP server 'demo' has a tool 'plain' that cannot be used: its inputSchema is longer than 262144 bytes"]).await;
}

#[tokio::test]
async fn lists_without_end() {
    refused(
        "many",
        |_| (),
        expect!["Server: the MCP server 'demo' has more than 128 tools; let it offer fewer"],
    )
    .await;
    refused(
        "endless",
        |_| (),
        expect!["Server: the MCP server 'demo' lists its tools on more than 64 pages"],
    )
    .await;
    refused(
        "long-list",
        |limits| limits.message_bytes_max = 100_000,
        expect!["Server: the MCP server 'demo' sent a list of tools longer than 100000 bytes"],
    )
    .await;
}

#[tokio::test]
async fn a_list_on_several_pages_is_read_to_its_end() {
    let tools = open(&scripted(&["pages"]), &surroundings()).await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.definition().name.as_str()).collect();
    assert_eq!(names, ["demo:page0", "demo:page1", "demo:page2"]);
}

#[tokio::test]
async fn calls_that_break_off() {
    called("dies", expect!["Server: the MCP server 'demo' ended (exit status: 3) while 'demo:plain' was being called: lost the database, token [redacted]"]).await;
    called(
        "closes",
        expect!["Server: the MCP server 'demo' ended (exit status: 0) while 'demo:plain' was being called"],
    )
    .await;
}

#[tokio::test]
async fn answers_that_are_none() {
    called("refuses", expect!["Failed: no such colour; token [redacted]"]).await;
    called("nonsense", expect!["Server: the MCP server 'demo' answered with something that MCP does not know while 'demo:plain' was being called"]).await;
    called("breaks-promise", expect!["Server: the MCP server 'demo' answered the call of 'demo:plain' with a result that breaks the tool's own outputSchema: $.colour: required property is missing"]).await;
    called("no-structure", expect!["Server: the MCP server 'demo' answered the call of 'demo:plain' without the structuredContent that the tool's outputSchema promises"]).await;
}

#[tokio::test]
async fn long_complaints_are_shortened() {
    let tools = open(&scripted(&["shouts"]), &surroundings()).await.unwrap();
    let words = shown(&call(&tools, "demo:plain", json!({})).await);
    assert!(words.starts_with("Failed: no! no! ") && words.ends_with("no! …"), "{words}");
    assert!(words.len() < 3_000, "{} bytes", words.len());
}

#[tokio::test]
async fn after_a_server_has_died_its_tools_say_so() {
    let tools = open(&scripted(&["dies"]), &with_token()).await.unwrap();
    let first = shown(&call(&tools, "demo:plain", json!({})).await);
    assert_eq!(shown(&call(&tools, "demo:plain", json!({})).await), first);
}

#[tokio::test]
async fn what_is_too_long_fails_and_the_server_goes_on() {
    let mut surroundings = surroundings();
    surroundings.limits.result_bytes_max = 10_000;
    surroundings.limits.message_bytes_max = 100_000;
    let tools = open(&scripted(&["huge"]), &surroundings).await.unwrap();
    let words = async |bytes: usize| shown(&call(&tools, "demo:plain", json!({"bytes": bytes})).await);
    expect!["Failed: the result of 'demo:plain' is larger than 10000 bytes; ask for less of it"]
        .assert_eq(&words(20_000).await);
    expect!["Failed: the result of 'demo:plain' is larger than 100000 bytes; ask for less of it"]
        .assert_eq(&words(1_000_000).await);
    expect![[r#""done""#]].assert_eq(&words(0).await);
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_cancelled_at_the_server() {
    let pipe = named_pipe("cancelled");
    let mut surroundings = surroundings();
    surroundings.limits.call = SHORT;
    let path = pipe.to_string_lossy().into_owned();
    let tools = open(&scripted(&["hangs-in-call", &path]), &surroundings).await.unwrap();
    expect!["Timeout: the tool 'demo:plain' took longer than 0.1 s and was stopped"]
        .assert_eq(&shown(&call(&tools, "demo:plain", json!({})).await));
    let (said, heard) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || said.send(std::fs::read_to_string(pipe).unwrap()));
    let heard = tokio::time::timeout(WAIT_MAX, heard).await.unwrap().unwrap();
    assert_eq!(heard, "cancelled");
}

#[tokio::test]
async fn a_server_ends_with_the_last_of_its_tools() {
    let pipe = named_pipe("stays");
    let path = pipe.to_string_lossy().into_owned();
    let (say_begun, begun) = tokio::sync::oneshot::channel();
    let (say_ended, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(File::open(pipe).unwrap());
        pipe.read_line(&mut String::new()).unwrap();
        say_begun.send(()).unwrap();
        // The pipe ends when nobody holds its other end any more.
        pipe.read_to_end(&mut Vec::new()).unwrap();
        say_ended.send(()).unwrap();
    });
    let mut tools = open(&scripted(&["stays", &path]), &surroundings()).await.unwrap();
    tokio::time::timeout(WAIT_MAX, begun).await.unwrap().unwrap();
    let last = tools.pop().unwrap();
    drop(tools);
    expect![[r#""done""#]].assert_eq(&shown(&last.call(&json!({})).await));
    drop(last);
    tokio::time::timeout(WAIT_MAX, ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn definitions_stay_what_they_were() {
    let tools = open(&scripted(&["changes"]), &surroundings()).await.unwrap();
    let before = tools[0].definition().clone();
    expect![[r#""done""#]].assert_eq(&shown(&call(&tools, "demo:plain", json!({})).await));
    assert_eq!(tools[0].definition(), &before);
    let again = open(&scripted(&["changes"]), &surroundings()).await.unwrap();
    assert_eq!(again[0].definition().hash, before.hash);
}

#[tokio::test]
async fn a_server_that_asks_is_told_that_there_is_nothing() {
    called("asks", expect![[r#"{"answers":[{"code":-32601,"message":"sampling/createMessage"},{"action":"decline"},{"roots":[]}]}"#]]).await;
}

#[tokio::test]
async fn arguments_are_an_object() {
    let tools = open(&scripted(&["plain"]), &surroundings()).await.unwrap();
    expect!["Arguments: the arguments of 'demo:plain' have to be an object"]
        .assert_eq(&shown(&call(&tools, "demo:plain", json!([1])).await));
}

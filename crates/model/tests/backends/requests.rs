//! What is sent: each protocol's body, path and headers.

use expect_test::{Expect, expect};
use formwork_model::{BackendConfig, Call};
use formwork_testkit::{ScriptedServer, Step};
use formwork_types::{BackendKind, Format, Message, Request, Tool, ToolCall, ToolChoice};
use serde_json::json;

use crate::support::{backend, config, hello};

async fn check(kind: BackendKind, request: &Request, expected: Expect) {
    check_with(kind, |_| {}, request, expected).await;
}

async fn check_with(
    kind: BackendKind,
    settings: impl FnOnce(&mut BackendConfig),
    request: &Request,
    expected: Expect,
) {
    let server = ScriptedServer::start(Step::text("{}"));
    let mut config = config(kind, &server);
    settings(&mut config);
    backend(&config).call(Call::new(request)).await.unwrap();
    let sent = server.requests().remove(0);
    let mut shown = format!("{} {}\n", sent.method, sent.path);
    for (name, value) in sent.body.as_object().unwrap() {
        // A line for each message and tool reads better than one for all of them or one for every brace.
        match value.as_array() {
            Some(list) => list.iter().for_each(|item| shown.push_str(&format!("{name}[]: {item}\n"))),
            None => shown.push_str(&format!("{name}: {value}\n")),
        }
    }
    expected.assert_eq(&shown);
}

/// A conversation in which everything happened that can.
fn conversation() -> Request {
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments: arguments.to_owned(),
    };
    Request {
        system: Some("Be brief.".to_owned()),
        messages: vec![
            Message::user("One"),
            Message::user("Two"),
            Message::assistant("", vec![call("c1", "{\"path\":\"a\"}"), call("c2", "not json")]),
            Message::tool("c1", "contents"),
            Message::tool("c2", "no such file"),
            Message::assistant("Done.", Vec::new()),
            Message::user("Again"),
        ],
        tools: vec![tool("read", true), tool("submit", false)],
        tool_choice: ToolChoice::Named("submit".to_owned()),
        max_tokens: Some(64),
        temperature: Some(0.5),
        seed: Some(7),
        ..Request::default()
    }
}

fn tool(name: &str, strict: bool) -> Tool {
    let parameters = json!({"type": "object"});
    Tool { name: name.to_owned(), description: format!("To {name}."), parameters, strict }
}

fn with_schema() -> Request {
    let schema = json!({"type": "object", "properties": {"z": {}, "a": {}}});
    Request { format: Format::JsonSchema { name: "answer".to_owned(), schema, strict: true }, ..hello() }
}

#[tokio::test]
async fn chat_completions_carry_a_whole_conversation() {
    check(BackendKind::OpenAi, &conversation(), expect![[r#"
        POST /v1/chat/completions
        model: "model-7b"
        max_tokens: 64
        temperature: 0.5
        seed: 7
        stream: true
        stream_options: {"include_usage":true}
        messages[]: {"role":"system","content":"Be brief."}
        messages[]: {"role":"user","content":"One\n\nTwo"}
        messages[]: {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}},{"id":"c2","type":"function","function":{"name":"read","arguments":"not json"}}]}
        messages[]: {"role":"tool","tool_call_id":"c1","content":"contents"}
        messages[]: {"role":"tool","tool_call_id":"c2","content":"no such file"}
        messages[]: {"role":"assistant","content":"Done."}
        messages[]: {"role":"user","content":"Again"}
        tools[]: {"type":"function","function":{"name":"read","description":"To read.","parameters":{"type":"object"},"strict":true}}
        tools[]: {"type":"function","function":{"name":"submit","description":"To submit.","parameters":{"type":"object"}}}
        tool_choice: {"type":"function","function":{"name":"submit"}}
    "#]]).await;
}

#[tokio::test]
async fn chat_completions_carry_a_schema_in_its_own_order() {
    check(BackendKind::OpenAi, &with_schema(), expect![[r#"
        POST /v1/chat/completions
        model: "model-7b"
        stream: true
        stream_options: {"include_usage":true}
        messages[]: {"role":"user","content":"Hello"}
        response_format: {"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{"z":{},"a":{}}}}}
    "#]]).await;
}

#[tokio::test]
async fn chat_completions_ask_for_an_object_with_or_without_a_schema() {
    let bare = Request { format: Format::JsonObject { schema: None }, ..hello() };
    check(
        BackendKind::OpenAi,
        &bare,
        expect![[r#"
        POST /v1/chat/completions
        model: "model-7b"
        stream: true
        stream_options: {"include_usage":true}
        messages[]: {"role":"user","content":"Hello"}
        response_format: {"type":"json_object"}
    "#]],
    )
    .await;
    let schema = Some(json!({"type": "object"}));
    let with = Request { format: Format::JsonObject { schema }, ..hello() };
    check(
        BackendKind::OpenAi,
        &with,
        expect![[r#"
        POST /v1/chat/completions
        model: "model-7b"
        stream: true
        stream_options: {"include_usage":true}
        messages[]: {"role":"user","content":"Hello"}
        response_format: {"type":"json_object","schema":{"type":"object"}}
    "#]],
    )
    .await;
}

#[tokio::test]
async fn settings_apply_where_a_request_says_nothing() {
    let settings = |config: &mut BackendConfig| {
        config.temperature = Some(0.25);
        config.seed = Some(3);
        config.max_tokens = Some(99);
    };
    check_with(
        BackendKind::OpenAi,
        settings,
        &hello(),
        expect![[r#"
        POST /v1/chat/completions
        model: "model-7b"
        max_tokens: 99
        temperature: 0.25
        seed: 3
        stream: true
        stream_options: {"include_usage":true}
        messages[]: {"role":"user","content":"Hello"}
    "#]],
    )
    .await;
    check_with(
        BackendKind::Anthropic,
        settings,
        &hello(),
        expect![[r#"
        POST /v1/messages
        model: "model-7b"
        max_tokens: 99
        stream: true
        temperature: 0.25
        messages[]: {"role":"user","content":"Hello"}
    "#]],
    )
    .await;
    let loud = Request { temperature: Some(1.0), seed: Some(4), max_tokens: Some(5), ..hello() };
    check_with(
        BackendKind::OpenAi,
        settings,
        &loud,
        expect![[r#"
        POST /v1/chat/completions
        model: "model-7b"
        max_tokens: 5
        temperature: 1.0
        seed: 4
        stream: true
        stream_options: {"include_usage":true}
        messages[]: {"role":"user","content":"Hello"}
    "#]],
    )
    .await;
}

#[tokio::test]
async fn openai_itself_wants_another_name_for_the_most_tokens() {
    let settings = |config: &mut BackendConfig| {
        config.dialect = Some("openai".to_owned());
        config.max_tokens = Some(99);
    };
    check_with(
        BackendKind::OpenAi,
        settings,
        &hello(),
        expect![[r#"
        POST /v1/chat/completions
        model: "model-7b"
        max_completion_tokens: 99
        stream: true
        stream_options: {"include_usage":true}
        messages[]: {"role":"user","content":"Hello"}
    "#]],
    )
    .await;
}

#[tokio::test]
async fn completions_carry_a_conversation_as_one_text() {
    check(BackendKind::Completions, &conversation(), expect![[r#"
        POST /v1/completions
        model: "model-7b"
        max_tokens: 64
        temperature: 0.5
        seed: 7
        stream: true
        stream_options: {"include_usage":true}
        prompt: "Be brief.\n\n### User:\nOne\n\nTwo\n\n### Assistant:\n\n\n### User:\ncontents\n\n### User:\nno such file\n\n### Assistant:\nDone.\n\n### User:\nAgain\n\n### Assistant:\n"
        stop[]: "\n### User:"
    "#]]).await;
}

#[tokio::test]
async fn completions_carry_a_schema() {
    check(BackendKind::Completions, &with_schema(), expect![[r####"
        POST /v1/completions
        model: "model-7b"
        stream: true
        stream_options: {"include_usage":true}
        prompt: "### User:\nHello\n\n### Assistant:\n"
        stop[]: "\n### User:"
        response_format: {"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{"z":{},"a":{}}}}}
    "####]]).await;
}

#[tokio::test]
async fn messages_carry_a_whole_conversation() {
    check(BackendKind::Anthropic, &conversation(), expect![[r#"
        POST /v1/messages
        model: "model-7b"
        max_tokens: 64
        stream: true
        system: "Be brief."
        temperature: 0.5
        messages[]: {"role":"user","content":"One\n\nTwo"}
        messages[]: {"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"read","input":{"path":"a"}},{"type":"tool_use","id":"c2","name":"read","input":{"invalid_arguments":"not json"}}]}
        messages[]: {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"contents"},{"type":"tool_result","tool_use_id":"c2","content":"no such file"}]}
        messages[]: {"role":"assistant","content":[{"type":"text","text":"Done."}]}
        messages[]: {"role":"user","content":"Again"}
        tools[]: {"name":"read","description":"To read.","input_schema":{"type":"object"},"strict":true}
        tools[]: {"name":"submit","description":"To submit.","input_schema":{"type":"object"}}
        tool_choice: {"type":"tool","name":"submit"}
    "#]]).await;
}

#[tokio::test]
async fn messages_carry_a_schema_and_always_a_bound() {
    check(BackendKind::Anthropic, &with_schema(), expect![[r#"
        POST /v1/messages
        model: "model-7b"
        max_tokens: 4096
        stream: true
        messages[]: {"role":"user","content":"Hello"}
        output_config: {"format":{"type":"json_schema","schema":{"type":"object","properties":{"z":{},"a":{}}}}}
    "#]]).await;
}

#[tokio::test]
async fn an_address_with_a_version_or_a_slash_is_the_same_address() {
    for base in ["", "/", "/v1", "/v1/"] {
        let server = ScriptedServer::start(Step::text("x"));
        let mut config = config(BackendKind::Anthropic, &server);
        config.base_url = Some(format!("{}{base}", server.root_url()));
        backend(&config).call(Call::new(&hello())).await.unwrap();
        assert_eq!(server.requests()[0].path, "/v1/messages", "{base}");
    }
}

#[tokio::test]
async fn each_protocol_has_its_own_header_for_the_key() {
    let server = ScriptedServer::start([Step::text("x"), Step::text("x"), Step::text("x")]);
    for kind in [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic] {
        let mut config = config(kind, &server);
        config.api_key_env = Some("KEY".to_owned());
        let environment = |name: &str| (name == "KEY").then(|| " sk-123\n".to_owned());
        let backend = formwork_model::connect(&config, &environment).unwrap();
        backend.call(Call::new(&hello())).await.unwrap();
    }
    let names = ["authorization", "x-api-key", "anthropic-version", "content-type"];
    let seen: Vec<_> = server
        .requests()
        .iter()
        .map(|request| names.map(|name| request.header(name).map(str::to_owned)))
        .collect();
    expect![[r#"
        [
            [
                Some(
                    "Bearer sk-123",
                ),
                None,
                None,
                Some(
                    "application/json",
                ),
            ],
            [
                Some(
                    "Bearer sk-123",
                ),
                None,
                None,
                Some(
                    "application/json",
                ),
            ],
            [
                None,
                Some(
                    "sk-123",
                ),
                Some(
                    "2023-06-01",
                ),
                Some(
                    "application/json",
                ),
            ],
        ]
    "#]]
    .assert_debug_eq(&seen);
}

//! The requests that backends send: path, headers and body.

use expect_test::{Expect, expect};
use serde_json::json;
use slipform_model::{BackendConfig, Call, connect};
use slipform_testkit::{ScriptedServer, Step};
use slipform_types::{
    BackendKind, Format, Message, Part, Request, Role, Sampling, Tool, ToolCall, ToolChoice,
};

use crate::support::{config, question};

/// Sends the request and compares the path, headers and body that the server receives.
async fn check(kind: BackendKind, request: &Request, set: impl FnOnce(&mut BackendConfig), expect: Expect) {
    let server = ScriptedServer::start(Step::text("ok"));
    let mut config = config(&server, kind);
    config.api_key_env = Some("KEY".to_owned());
    set(&mut config);
    let backend = connect(&config, &|name| (name == "KEY").then(|| "sk-1234567890".to_owned())).unwrap();
    backend.call(Call::new(request)).await.unwrap();
    let sent = &server.requests()[0];
    let mut text = format!("{} {}\n", sent.method, sent.path);
    for name in ["authorization", "x-api-key", "anthropic-version", "content-type"] {
        if let Some(value) = sent.header(name) {
            text.push_str(&format!("{name}: {value}\n"));
        }
    }
    for (name, value) in sent.body.as_object().unwrap() {
        match value.as_array() {
            Some(list) => list.iter().for_each(|item| text.push_str(&format!("{name}[]: {item}\n"))),
            None => text.push_str(&format!("{name}: {value}\n")),
        }
    }
    expect.assert_eq(&text);
}

fn colours() -> serde_json::Value {
    json!({"type": "object", "properties": {"colour": {"type": "string"}}})
}

/// Returns a request that uses every field.
fn full_request() -> Request {
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        arguments: arguments.to_owned(),
    };
    let tool = |name: &str, strict: bool| Tool {
        name: name.to_owned(),
        description: format!("Does {name}."),
        parameters: colours(),
        strict,
    };
    Request {
        system: Some("You know paint.".to_owned()),
        messages: vec![
            Message::user("Look."),
            Message::user("Twice."),
            Message::assistant("", vec![call("c1", "{\"colour\":\"red\"}"), call("c2", "not json")]),
            Message::tool("c1", "bright"),
            Message::tool("c2", "failed"),
            Message::user("And now?"),
            Message::assistant("Green.", Vec::new()),
            Message::user("As JSON."),
        ],
        tools: vec![tool("look", false), tool("paint", true)],
        tool_choice: ToolChoice::Named("paint".to_owned()),
        format: Format::JsonSchema { name: "paint".to_owned(), schema: colours().into(), strict: true },
        max_tokens: Some(77),
        has_no_budget: false,
        is_whole: false,
        parallel_tool_calls: None,
        sampling: Sampling { temperature: Some(0.5), seed: Some(7), ..Sampling::default() },
        schema_hint: None,
    }
}

#[tokio::test]
async fn openai_request_contains_all_fields() {
    check(BackendKind::OpenAi, &full_request(), |_| {}, expect![[r#"
        POST /v1/chat/completions
        authorization: Bearer sk-1234567890
        content-type: application/json
        model: "m"
        max_tokens: 77
        temperature: 0.5
        seed: 7
        tool_choice: {"type":"function","function":{"name":"paint"}}
        stream: true
        stream_options: {"include_usage":true}
        messages[]: {"role":"system","content":"You know paint."}
        messages[]: {"role":"user","content":"Look.\n\nTwice."}
        messages[]: {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"colour\":\"red\"}"}},{"id":"c2","type":"function","function":{"name":"look","arguments":"{\"invalid_arguments\":\"not json\"}"}}]}
        messages[]: {"role":"tool","tool_call_id":"c1","content":"bright"}
        messages[]: {"role":"tool","tool_call_id":"c2","content":"failed"}
        messages[]: {"role":"user","content":"And now?"}
        messages[]: {"role":"assistant","content":"Green."}
        messages[]: {"role":"user","content":"As JSON."}
        tools[]: {"type":"function","function":{"name":"look","description":"Does look.","parameters":{"type":"object","properties":{"colour":{"type":"string"}}}}}
        tools[]: {"type":"function","function":{"name":"paint","description":"Does paint.","parameters":{"type":"object","properties":{"colour":{"type":"string"}}},"strict":true}}
        response_format: {"type":"json_schema","json_schema":{"name":"paint","strict":true,"schema":{"type":"object","properties":{"colour":{"type":"string"}}}}}
    "#]]).await;
}

#[tokio::test]
async fn completions_request_is_one_prompt() {
    check(BackendKind::Completions, &full_request(), |_| {}, expect![[r#"
        POST /v1/completions
        authorization: Bearer sk-1234567890
        content-type: application/json
        model: "m"
        max_tokens: 77
        temperature: 0.5
        seed: 7
        prompt: "You know paint.\n\n### User:\nLook.\n\nTwice.\n\n### Assistant:\n\n(called look with {\"colour\":\"red\"})\n(called look with not json)\n\n### User:\nbright\n\n### User:\nfailed\n\n### User:\nAnd now?\n\n### Assistant:\nGreen.\n\n### User:\nAs JSON.\n\n### Assistant:\n"
        stop[]: "\n### User:"
        stream: true
        stream_options: {"include_usage":true}
        response_format: {"type":"json_schema","json_schema":{"name":"paint","strict":true,"schema":{"type":"object","properties":{"colour":{"type":"string"}}}}}
    "#]]).await;
}

#[tokio::test]
async fn anthropic_request_contains_all_fields_except_seed() {
    check(BackendKind::Anthropic, &full_request(), |_| {}, expect![[r#"
        POST /v1/messages
        x-api-key: sk-1234567890
        anthropic-version: 2023-06-01
        content-type: application/json
        model: "m"
        max_tokens: 77
        stream: true
        system: "You know paint."
        temperature: 0.5
        messages[]: {"role":"user","content":"Look.\n\nTwice."}
        messages[]: {"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"look","input":{"colour":"red"}},{"type":"tool_use","id":"c2","name":"look","input":{"invalid_arguments":"not json"}}]}
        messages[]: {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"bright"},{"type":"tool_result","tool_use_id":"c2","content":"failed"}]}
        messages[]: {"role":"user","content":"And now?"}
        messages[]: {"role":"assistant","content":[{"type":"text","text":"Green."}]}
        messages[]: {"role":"user","content":"As JSON."}
        tools[]: {"name":"look","description":"Does look.","input_schema":{"type":"object","properties":{"colour":{"type":"string"}}}}
        tools[]: {"name":"paint","description":"Does paint.","input_schema":{"type":"object","properties":{"colour":{"type":"string"}}},"strict":true}
        tool_choice: {"type":"tool","name":"paint"}
        output_config: {"format":{"type":"json_schema","schema":{"type":"object","properties":{"colour":{"type":"string"}}}}}
    "#]]).await;
}

#[tokio::test]
async fn settings_apply_where_the_request_has_no_value() {
    let set = |config: &mut BackendConfig| {
        config.temperature = Some(0.25);
        config.seed = Some(3);
        config.max_tokens = Some(9);
        config.dialect = Some("openai".to_owned());
    };
    check(
        BackendKind::OpenAi,
        &question(),
        set,
        expect![[r#"
            POST /v1/chat/completions
            authorization: Bearer sk-1234567890
            content-type: application/json
            model: "m"
            max_completion_tokens: 9
            temperature: 0.25
            seed: 3
            stream: true
            stream_options: {"include_usage":true}
            messages[]: {"role":"user","content":"Which colour?"}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn json_object_format_includes_its_schema() {
    let format = Format::JsonObject { schema: Some(colours().into()) };
    check(BackendKind::OpenAi, &Request { format, ..question() }, |_| {}, expect![[r#"
        POST /v1/chat/completions
        authorization: Bearer sk-1234567890
        content-type: application/json
        model: "m"
        max_tokens: 8192
        stream: true
        stream_options: {"include_usage":true}
        messages[]: {"role":"user","content":"Which colour?"}
        response_format: {"type":"json_object","schema":{"type":"object","properties":{"colour":{"type":"string"}}}}
    "#]]).await;
}

#[tokio::test]
async fn request_without_model_omits_the_field() {
    for kind in crate::support::HTTP {
        for model in [None, Some(String::new())] {
            let server = ScriptedServer::start(Step::text("ok"));
            let config = BackendConfig { model, ..config(&server, kind) };
            crate::support::ask(crate::support::open(&config).as_ref()).await.unwrap();
            assert!(server.requests()[0].body.get("model").is_none(), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn anthropic_empty_assistant_turn_gets_placeholder_text() {
    let messages = vec![Message::user("A?"), Message::assistant("", Vec::new()), Message::user("Say it.")];
    check(
        BackendKind::Anthropic,
        &Request { messages, ..Request::default() },
        |_| {},
        expect![[r#"
        POST /v1/messages
        x-api-key: sk-1234567890
        anthropic-version: 2023-06-01
        content-type: application/json
        model: "m"
        max_tokens: 4096
        stream: true
        messages[]: {"role":"user","content":"A?"}
        messages[]: {"role":"assistant","content":[{"type":"text","text":"(nothing)"}]}
        messages[]: {"role":"user","content":"Say it."}
    "#]],
    )
    .await;
}

/// Sends a request without a budget and returns the budget that the server receives.
async fn sent_budget(kind: BackendKind, model: &str) -> serde_json::Value {
    let server = ScriptedServer::start(Step::text("ok"));
    let config = BackendConfig { model: Some(model.to_owned()), ..config(&server, kind) };
    crate::support::ask(crate::support::open(&config).as_ref()).await.unwrap();
    server.requests()[0].body["max_tokens"].clone()
}

#[tokio::test]
async fn request_without_budget_gets_the_default_of_its_model_size() {
    for kind in [BackendKind::OpenAi, BackendKind::Completions] {
        assert_eq!(sent_budget(kind, "gpt-4o").await, 8_192, "{kind:?}");
        assert_eq!(sent_budget(kind, "").await, 8_192, "{kind:?}");
        assert_eq!(sent_budget(kind, "llama3.2:1b").await, 2_048, "{kind:?}");
    }
    assert_eq!(sent_budget(BackendKind::Anthropic, "claude").await, 4_096);
}

#[tokio::test]
async fn default_budget_that_the_server_rejects_is_left_out_from_then_on() {
    for message in [
        "max_tokens is too large: 8192. This model supports at most 4096 completion tokens.",
        "This model's maximum context length is 4096 tokens. However, you requested 8300 tokens.",
    ] {
        let body = json!({"error": {"message": message}}).to_string();
        let server = ScriptedServer::respond(move |request, _| match request.body.get("max_tokens") {
            Some(_) => Step::status(400).body(body.clone()),
            None => Step::text("ok"),
        });
        let backend = crate::support::open(&config(&server, BackendKind::OpenAi));
        for _ in 0..2 {
            assert_eq!(crate::support::ask(backend.as_ref()).await.unwrap().text, "ok", "{message}");
        }
        assert_eq!(server.requests().len(), 3, "{message}");
    }
}

#[tokio::test]
async fn configured_budget_that_the_server_rejects_is_an_error() {
    let body = json!({"error": {"message": "max_tokens is too large"}}).to_string();
    let server = ScriptedServer::start(Step::status(400).body(body));
    let config = BackendConfig { max_tokens: Some(9), ..config(&server, BackendKind::OpenAi) };
    crate::support::ask(crate::support::open(&config).as_ref()).await.unwrap_err();
    assert_eq!(server.requests().len(), 1);
}

/// Returns the request of a chat client: images, instructions inside the conversation and every sampling parameter.
fn client_request() -> Request {
    let parts = vec![
        Part::Text { text: "What is this?".to_owned() },
        Part::Image { url: "data:image/png;base64,AAAA".to_owned(), detail: Some("low".to_owned()) },
        Part::Image { url: "https://example.com/a.png".to_owned(), detail: None },
    ];
    Request {
        messages: vec![
            Message { parts, ..Message::user("What is this?") },
            Message::assistant("A cat.", Vec::new()),
            Message::of(Role::System, "Be brief."),
            Message::user("Sure?"),
        ],
        tools: vec![Tool {
            name: "look".to_owned(),
            description: "Looks.".to_owned(),
            parameters: colours(),
            strict: false,
        }],
        parallel_tool_calls: Some(false),
        sampling: Sampling {
            temperature: Some(0.5),
            top_p: Some(0.9),
            frequency_penalty: Some(0.1),
            presence_penalty: Some(0.2),
            seed: Some(7),
            stop: vec!["END".to_owned()],
            reasoning_effort: Some("low".into()),
            ..Sampling::default()
        },
        ..Request::default()
    }
}

#[tokio::test]
async fn openai_request_has_images_and_sampling_parameters() {
    check(BackendKind::OpenAi, &client_request(), |_| {}, expect![[r#"
        POST /v1/chat/completions
        authorization: Bearer sk-1234567890
        content-type: application/json
        model: "m"
        temperature: 0.5
        top_p: 0.9
        frequency_penalty: 0.1
        presence_penalty: 0.2
        seed: 7
        stop[]: "END"
        reasoning_effort: "low"
        parallel_tool_calls: false
        max_tokens: 8192
        stream: true
        stream_options: {"include_usage":true}
        messages[]: {"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}
        messages[]: {"role":"assistant","content":"A cat."}
        messages[]: {"role":"system","content":"Be brief."}
        messages[]: {"role":"user","content":"Sure?"}
        tools[]: {"type":"function","function":{"name":"look","description":"Looks.","parameters":{"type":"object","properties":{"colour":{"type":"string"}}}}}
    "#]]).await;
}

#[tokio::test]
async fn anthropic_request_has_images_and_stop_sequences() {
    check(BackendKind::Anthropic, &client_request(), |_| {}, expect![[r#"
        POST /v1/messages
        x-api-key: sk-1234567890
        anthropic-version: 2023-06-01
        content-type: application/json
        model: "m"
        max_tokens: 4096
        stream: true
        temperature: 0.5
        top_p: 0.9
        stop_sequences[]: "END"
        messages[]: {"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}
        messages[]: {"role":"assistant","content":[{"type":"text","text":"A cat."}]}
        messages[]: {"role":"user","content":"Be brief."}
        messages[]: {"role":"user","content":"Sure?"}
        tools[]: {"name":"look","description":"Looks.","input_schema":{"type":"object","properties":{"colour":{"type":"string"}}}}
        tool_choice: {"type":"auto","disable_parallel_tool_use":true}
    "#]]).await;
}

#[tokio::test]
async fn backend_without_images_refuses_them() {
    let server = ScriptedServer::start([Step::text("never asked")]);
    let backend = connect(&config(&server, BackendKind::Completions), &|_| None).unwrap();
    let refused = backend.call(Call::new(&client_request())).await.unwrap_err().to_string();
    assert!(refused.contains("take no images; send text, or name another backend"), "{refused}");
}

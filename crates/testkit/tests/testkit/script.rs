//! Tests which step a request gets, and how requests are recorded.

use serde_json::{Value, json};
use slipform_testkit::{Protocol, Script, ScriptedServer, Step, fixtures};

use crate::support::{CHAT, Client, MESSAGES, plain};

fn content(reply: &Value) -> &str {
    reply["choices"][0]["message"]["content"].as_str().unwrap()
}

#[test]
fn steps_are_taken_in_order_on_one_connection() {
    let server = ScriptedServer::start([Step::text("one"), Step::status(500), Step::text("three")]);
    let mut client = Client::connect(&server);
    assert_eq!(content(&client.ask(CHAT, &plain()).json()), "one");
    assert_eq!(client.ask(CHAT, &plain()).status, 500);
    let third = client.ask(CHAT, &plain()).json();
    assert_eq!((content(&third), &third["id"]), ("three", &json!("chatcmpl-2")));
    assert_eq!((server.connections(), server.requests().len(), server.unexpected()), (1, 3, 0));
}

#[test]
fn exhausted_script_answers_599() {
    let server = ScriptedServer::start([Step::text("one")]);
    let mut client = Client::connect(&server);
    client.ask(CHAT, &plain());
    let reply = client.ask(CHAT, &plain());
    assert_eq!(reply.status, 599);
    assert_eq!(reply.text(), "the script has no step for model request number 2");
    assert_eq!(server.unexpected(), 1);
}

#[test]
fn last_step_can_be_repeated() {
    let script = Script::new([Step::status(503), Step::text("up")]).repeat_last().without_record();
    let server = ScriptedServer::start(script);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask(CHAT, &plain()).status, 503);
    for _ in 0..3 {
        assert_eq!(content(&client.ask(CHAT, &plain()).json()), "up");
    }
    server.wait_for_requests(4);
    assert!(server.requests().is_empty());
}

#[test]
fn replies_can_depend_on_the_request() {
    let server = ScriptedServer::respond(|request, index| {
        if request.body["response_format"].is_object() {
            Step::json(&fixtures::pr_reviewer().reply)
        } else {
            Step::text(format!("{index}: {}", request.prompt()))
        }
    });
    let mut client = Client::connect(&server);
    assert_eq!(content(&client.ask(CHAT, &plain()).json()), "0: hello");
    let reply = client.ask(CHAT, &json!({"messages": [], "response_format": {"type": "json_object"}}));
    let answer: Value = serde_json::from_str(content(&reply.json())).unwrap();
    assert_eq!(answer, fixtures::pr_reviewer().reply);
}

#[test]
fn panicking_responder_fails_only_its_own_request() {
    let server =
        ScriptedServer::respond(|_, index| if index == 0 { panic!("as planned") } else { Step::text("on") });
    let mut client = Client::connect(&server);
    client.post(CHAT, &plain());
    assert!(client.rest().0.is_empty());
    assert_eq!(content(&Client::connect(&server).ask(CHAT, &plain()).json()), "on");
    assert_eq!(server.max_in_flight(), 1);
}

#[test]
fn requests_are_recorded_as_sent() {
    let server = ScriptedServer::start([Step::text("x")]);
    let mut client = Client::connect(&server);
    let body =
        r#"{ "system": [{"type":"text","text":"be brief"}], "messages": [{"role":"user","content":"hé"}] }"#;
    let request = format!(
        "POST {MESSAGES}?beta=true HTTP/1.1\r\nX-Api-Key: k:1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // Send two parts, the second starting inside a character, because TCP may split a request anywhere.
    let split = request.len() - 8;
    client.send_bytes(&request.as_bytes()[..split]);
    client.send_bytes(&request.as_bytes()[split..]);
    assert_eq!(client.reply().status, 200);

    let recorded = &server.requests()[0];
    assert_eq!((recorded.method.as_str(), recorded.path.as_str()), ("POST", "/v1/messages?beta=true"));
    assert_eq!(recorded.headers[0], ("X-Api-Key".to_owned(), "k:1".to_owned()));
    assert_eq!(recorded.header("x-api-key"), Some("k:1"));
    assert_eq!(recorded.raw, body.as_bytes());
    assert_eq!(recorded.prompt(), "be brief\nhé");
    assert_eq!((recorded.protocol(), recorded.streams()), (Some(Protocol::Messages), false));
}

#[test]
fn models_routes_and_unknown_paths_take_no_step() {
    let script = Script::new([Step::text("x")]).serving("qwen3-8b", "llamacpp").route(
        "GET",
        "/version",
        Step::status(200).body("{\"version\":\"0.9\"}"),
    );
    let server = ScriptedServer::start(script);
    let mut client = Client::connect(&server);
    let models = client.get("/v1/models").json();
    assert_eq!(
        (&models["data"][0]["id"], &models["data"][0]["owned_by"]),
        (&json!("qwen3-8b"), &json!("llamacpp"))
    );
    assert_eq!(client.get("/version").json()["version"], "0.9");
    assert_eq!(client.get("/nowhere").status, 404);
    assert_eq!(client.ask(CHAT, &plain()).status, 200);
    let others: Vec<String> = server.other_requests().iter().map(|request| request.path.clone()).collect();
    assert_eq!(others, ["/v1/models", "/version", "/nowhere"]);
    assert_eq!((server.requests().len(), server.unexpected()), (1, 0));

    let server = ScriptedServer::start(Script::new([]).route("GET", "/v1/models", Step::status(404)));
    assert_eq!(Client::connect(&server).get("/v1/models").status, 404);
}

#[test]
fn invalid_requests_are_refused() {
    let server = ScriptedServer::start([]);
    for (bytes, status) in [
        ("nonsense\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        ("POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
    ] {
        let mut client = Client::connect(&server);
        client.send_bytes(bytes.as_bytes());
        assert_eq!(client.reply().status, status, "{bytes}");
    }
}

#[test]
fn urls_contain_the_port() {
    let server = ScriptedServer::start([]);
    assert_eq!(server.base_url(), format!("http://127.0.0.1:{}/v1", server.address().port()));
    assert_eq!(server.root_url(), format!("http://127.0.0.1:{}", server.address().port()));
}

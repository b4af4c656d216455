//! The API key is sent in one header and appears in no output, even if the server echoes it.

use std::sync::Mutex;

use serde_json::json;
use slipform_model::{BackendConfig, Call, Watch, connect};
use slipform_testkit::{Recorded, ScriptedServer, Step};
use slipform_types::BackendKind;

use crate::support::{HTTP, config, question, shown};

/// A key with mixed case and with characters that URLs and JSON encode.
const KEY: &str = "sk-CaNaRy/A+b\"C7x9Q2w4E6r8T0";

/// The shortest part of the key whose appearance fails a test, in bytes. It detects half a key.
const PART: usize = 9;

fn sent_key(request: &Recorded) -> String {
    let header = request.header("authorization").or_else(|| request.header("x-api-key")).unwrap_or_default();
    header.trim_start_matches("Bearer ").to_owned()
}

/// The name of a position in a response, and a response with the key at that position.
type Echo = (&'static str, fn(&str) -> Step);

/// Returns one case for every position where a server may echo the key.
fn echoes() -> Vec<Echo> {
    vec![
        ("a refusal", |key| Step::status(401).body(json!({"error": {"message": key}}).to_string())),
        ("an error that is an object", |key| {
            Step::status(400).body(json!({"detail": {"headers": [key]}}).to_string())
        }),
        ("an error as text", |key| Step::status(400).content_type("text/plain").body(format!("<{key}>"))),
        ("an error cut inside the key", |key| Step::status(400).body(format!("{} {key}", "x".repeat(985)))),
        ("a busy server", |key| Step::status(503).body(format!("{key} is over its quota"))),
        ("a text", |key| Step::text(format!("your key is {key}"))),
        ("a text in one piece", |key| Step::text(format!("your key is {key}")).plain_only()),
        ("JSON in a text", |key| Step::json(&json!({"key": key}))),
        ("reasoning", |key| Step::reasoning(key).and_text("green")),
        ("a refusal of the model", |key| Step::refusal(format!("not with {key}"))),
        ("tool arguments", |key| Step::tool("look", json!({"key": key}))),
        ("tool arguments in one piece", |key| Step::tool("look", json!({"key": key})).plain_only()),
        ("a tool's name", |key| Step::tool(key, json!({}))),
        ("a model's name", |key| Step::text("green").model(key)),
        ("a redirect", |key| Step::redirect(&format!("http://elsewhere.example/?key={key}"))),
        ("an encoded redirect", |key| {
            let encoded = key.replace('/', "%2F").replace('+', "%2B").replace('"', "%22");
            Step::redirect(&format!("http://elsewhere.example/?key={encoded}"))
        }),
        ("a content type", |key| Step::html().content_type(&format!("text/{key}"))),
        ("a page cut inside the key", |key| Step::html().body(format!("{} {key}", "x".repeat(185)))),
        ("an error in a stream", |key| Step::text("green as the grass").error_after(1, key)),
        ("an error cut inside the key in a stream", |key| {
            Step::text("green as the grass").error_after(1, &format!("{} {key}", "x".repeat(985)))
        }),
        ("a broken stream", |key| Step::text("green").malformed_chunk(0, &format!("data: {key}"))),
        ("a wrong type in a stream", |key| {
            let line = json!({"choices": key, "type": "message_start", "message": key}).to_string();
            Step::text("green").malformed_chunk(0, &format!("data: {line}"))
        }),
    ]
}

/// Returns settings that read the key from the variable `KEY`.
fn keyed(server: &ScriptedServer, kind: BackendKind) -> BackendConfig {
    let mut config = config(server, kind);
    config.api_key_env = Some("KEY".to_owned());
    config.retries = 1;
    config
}

fn environment(key: &str) -> impl Fn(&str) -> Option<String> {
    move |name| (name == "KEY").then(|| key.to_owned())
}

/// A watch that records the reported text.
#[derive(Default)]
struct RecordingWatch(Mutex<String>);

impl Watch for RecordingWatch {
    fn text(&self, piece: &str) {
        self.0.lock().unwrap().push_str(piece);
    }

    fn arguments(&self, piece: &str) {
        self.0.lock().unwrap().push_str(piece);
    }
}

#[tokio::test]
async fn watch_receives_the_streamed_text() {
    for kind in HTTP {
        let text = "green as the grass in spring, and as tall";
        let server = ScriptedServer::start(Step::text(text));
        let (request, watch) = (question(), RecordingWatch::default());
        let backend = connect(&keyed(&server, kind), &environment(KEY)).unwrap();
        backend.call(Call { watch: &watch, ..Call::new(&request) }).await.unwrap();
        assert_eq!(*watch.0.lock().unwrap(), text, "{kind:?}");
    }
}

/// Asserts that the text contains no part of the key with [`PART`] bytes, in upper or lower case.
fn assert_hidden(text: &str, context: &str) {
    let text = text.to_ascii_lowercase();
    let key = KEY.to_ascii_lowercase();
    for start in 0..=key.len() - PART {
        let part = &key[start..start + PART];
        assert!(!text.contains(part), "{context}: found {part} in {text}");
    }
}

#[tokio::test]
async fn echoed_key_is_redacted_in_every_output() {
    for kind in HTTP {
        for (name, echo) in echoes() {
            let server = ScriptedServer::respond(move |request, _| echo(&sent_key(request)));
            let backend = connect(&keyed(&server, kind), &environment(KEY)).unwrap();
            let (request, watch) = (question(), RecordingWatch::default());
            let outcome = backend.call(Call { watch: &watch, ..Call::new(&request) }).await;
            assert_hidden(&watch.0.lock().unwrap(), &format!("{kind:?} {name}, reported to the watch"));
            assert_eq!(sent_key(&server.requests()[0]), KEY, "{kind:?} {name}: the server receives the key");
            let journal = outcome.as_ref().map_err(|error| format!("{:?}", error.to_call_error()));
            let all = format!("{} {outcome:?} {journal:?} {backend:?}", shown(&outcome));
            assert_hidden(&all, &format!("{kind:?} {name}"));
        }
    }
}

#[tokio::test]
async fn key_is_not_sent_to_a_redirect_target() {
    let elsewhere = ScriptedServer::start(Step::text("stolen"));
    for kind in HTTP {
        let server =
            ScriptedServer::start(Step::redirect(&format!("{}/chat/completions", elsewhere.base_url())));
        let backend = connect(&keyed(&server, kind), &environment(KEY)).unwrap();
        backend.call(Call::new(&question())).await.unwrap_err();
        backend.about().await;
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn whitespace_around_the_key_is_removed() {
    for kind in HTTP {
        let server = ScriptedServer::start(Step::text("green"));
        let backend = connect(&keyed(&server, kind), &environment("  sk-1234567890\r\n")).unwrap();
        backend.call(Call::new(&question())).await.unwrap();
        assert_eq!(sent_key(&server.requests()[0]), "sk-1234567890", "{kind:?}");
    }
}

#[test]
fn key_invalid_in_a_header_is_refused_and_hidden() {
    let server = ScriptedServer::start(Step::text("never"));
    for kind in HTTP {
        for key in [format!("{KEY}\nX-Evil: 1"), format!("{KEY}\0"), format!("é{KEY}"), format!("{KEY}\x7f!")]
        {
            let error = connect(&keyed(&server, kind), &environment(&key)).unwrap_err();
            let expected = "backends.mine.api_key_env: the variable KEY contains characters that HTTP headers do not \
                            allow; export the key alone, on one line";
            assert_eq!(error.to_string(), expected);
            assert_hidden(&format!("{error:?}"), "an illegal key");
        }
    }
}

#[test]
fn unset_key_variable_is_named_in_the_error() {
    let server = ScriptedServer::start(Step::text("never"));
    for unset in [None, Some(" \n".to_owned())] {
        let error = connect(&keyed(&server, BackendKind::OpenAi), &|_| unset.clone()).unwrap_err();
        let expected = "backends.mine.api_key_env: the variable KEY is not set; export it, or remove the line if the \
                        backend needs no key";
        assert_eq!(error.to_string(), expected);
    }
}

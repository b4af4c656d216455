//! Faults of backends, clients that disconnect, and time limits.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;
use slipform_testkit::{Gate, Script, ScriptedServer, Step};

use super::support::{
    Answered, chat, gateway, is_person, open, person, post, read, streamed, with_schema, with_tool,
};
use crate::support::{Project, serve};

/// Returns every fault of a backend, with a name.
fn faults() -> Vec<(&'static str, Step)> {
    let valid = || Step::text(r#"{"name": "Ada", "age": 36}"#);
    let call = || Step::tool("save_person", json!({"name": "Ada", "age": 36}));
    vec![
        ("prose", Step::text("Ada is 36 years old.")),
        ("wrong type", Step::text(r#"{"name": "Ada", "age": "old"}"#)),
        ("two documents", Step::text(r#"{"name": "Ada", "age": 36} {"name": "Bob", "age": -1}"#)),
        ("schema echoed", Step::json(&person())),
        ("empty", Step::text("")),
        ("only reasoning", Step::reasoning("Let me think.")),
        ("invalid arguments", Step::tool("save_person", json!({"age": -3}))),
        ("arguments not JSON", Step::tool("save_person", "{\"name\": \"Ada\", ")),
        ("unknown tool", Step::tool("drop_tables", json!({}))),
        ("cut arguments", call().finish("length")),
        ("cut text", valid().finish("length")),
        ("content filter", valid().finish("content_filter")),
        ("no finish reason", valid().without_finish().without_done()),
        ("stream cut", valid().cut_after(1)),
        ("stream reset", valid().cut_after(1).reset()),
        ("malformed chunk", valid().malformed_chunk(1, "data: {\"choices\": [")),
        ("error in the stream", valid().error_after(1, "overloaded")),
        ("closed", Step::close()),
        ("html", Step::html()),
        ("redirect", Step::redirect("http://127.0.0.1:1/")),
        ("400", Step::status(400)),
        ("401", Step::status(401)),
        ("429", Step::status(429).header("Retry-After", "0")),
        ("500", Step::status(500)),
        ("503", Step::status(503)),
        (
            "not JSON",
            Step::raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\n\r\n{a}"),
        ),
    ]
}

/// Asserts that a response has no content and no arguments that violate their schema.
fn assert_never_invalid(what: &str, answered: &Answered, is_structured: bool) {
    let (content, arguments) = if answered.text.starts_with("data:") {
        let (mut content, mut arguments) = (String::new(), std::collections::BTreeMap::<u64, String>::new());
        let is_complete = answered.text.ends_with("data: [DONE]\n\n");
        for chunk in answered.chunks().iter().filter(|_| is_complete) {
            let delta = &chunk["choices"][0]["delta"];
            content.push_str(delta["content"].as_str().unwrap_or_default());
            for call in delta["tool_calls"].as_array().into_iter().flatten() {
                let text = call["function"]["arguments"].as_str().unwrap_or_default();
                arguments.entry(call["index"].as_u64().unwrap()).or_default().push_str(text);
            }
        }
        (content, arguments.into_values().collect::<Vec<_>>())
    } else if answered.status == 200 {
        let message = &answered.json()["choices"][0]["message"];
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let arguments = calls.map(|call| call["function"]["arguments"].as_str().unwrap().to_owned());
        (message["content"].as_str().unwrap_or_default().to_owned(), arguments.collect())
    } else {
        let error = &answered.json()["error"];
        assert!(error["message"].is_string() && error["code"].is_string(), "{what}: {error}");
        assert!(!matches!(answered.status, 409), "{what}: {}", answered.status);
        return;
    };
    if is_structured && !content.is_empty() {
        let value =
            serde_json::from_str(&content).unwrap_or_else(|error| panic!("{what}: {error}: {content}"));
        assert!(is_person(&value), "{what}: {content}");
    }
    for text in arguments {
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"));
        assert!(is_person(&value), "{what}: {text}");
    }
}

#[test]
fn no_fault_of_a_backend_gives_an_invalid_success() {
    for (name, fault) in faults() {
        let script = Script::new([fault]).repeat_last();
        let upstream = ScriptedServer::start(script);
        let settings = format!(
            "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\nretries = 1\nretry_base_seconds = 0.0\n",
            upstream.base_url()
        );
        let project = Project::new(&format!("gateway-fault-{}", name.replace(' ', "-")));
        let (_server, address) = serve(&project.file("slipform.toml", &settings), &[]);
        for (kind, more, is_structured) in [
            ("json_schema", with_schema(), true),
            ("tools", with_tool(&json!("auto")), false),
            ("required", with_tool(&json!("required")), true),
        ] {
            for is_streamed in [false, true] {
                let body = chat("scripted", &more);
                let body = if is_streamed { streamed(body) } else { body };
                let what = format!("{name}, {kind}, streamed: {is_streamed}");
                assert_never_invalid(&what, &post(&address, &body), is_structured);
            }
        }
    }
}

#[test]
fn client_that_disconnects_cancels_the_call() {
    for (name, is_streamed) in [("gateway-gone", false), ("gateway-gone-stream", true)] {
        let gate = Gate::new();
        let (_server, address, upstream) = gateway(name, [Step::text("Late.").gate(&gate)]);
        let body = chat("scripted", &with_schema());
        let stream = open(&address, &if is_streamed { streamed(body) } else { body }, "");
        upstream.wait_for_requests(1);
        drop(stream);
        upstream.wait_for_abandoned(1);
    }
}

/// Returns the metrics of a server.
fn read_metrics(address: &str) -> String {
    let host = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn request_that_an_sdk_repeats_joins_the_one_under_way() {
    let gate = Gate::new();
    let (_server, address, upstream) =
        gateway("gateway-join", [Step::text(r#"{"name": "Ada", "age": 36}"#).gate(&gate)]);
    let body = chat("scripted", &with_schema());
    let first = open(&address, &body, "x-stainless-retry-count: 0\r\n");
    upstream.wait_for_requests(1);
    let second = open(&address, &body, "x-stainless-retry-count: 1\r\n");
    slipform_testkit::wait_until("the second request has joined", || {
        let metrics = read_metrics(&address);
        metrics.contains("slipform_gateway_requests_joined_total 1")
    });
    // The client closes the connection of the request that it repeats.
    drop(first);
    gate.open();
    let answered = read(second);
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn answer_comes_before_the_time_limit_of_the_client() {
    let (_server, address, upstream) = gateway("gateway-deadline", [Step::text("Hello."), Step::hang()]);
    // The connection to the backend takes no time of the second request.
    post(&address, &chat("scripted", &json!({})));
    let stream = open(&address, &chat("scripted", &with_schema()), "x-stainless-read-timeout: 3\r\n");
    let answered = read(stream);
    assert_eq!(answered.status, 504, "{}", answered.text);
    assert!(answered.head.contains("x-should-retry: false"), "{}", answered.head);
    assert_eq!(answered.json()["error"]["code"], "deadline_exceeded");
    upstream.wait_for_abandoned(1);
}

#[test]
fn failures_of_backends_have_the_statuses_that_sdks_expect() {
    let cases = [
        (Step::status(429).header("Retry-After", "61"), 429, "rate_limit_exceeded", Some("retry-after: 61")),
        (Step::status(503), 503, "backend_unavailable", Some("retry-after: 1")),
        (Step::status(401), 502, "backend_rejected", Some("x-should-retry: false")),
        (
            Step::status(400).body(r#"{"error": {"message": "maximum context length is 4096 tokens"}}"#),
            400,
            "context_length_exceeded",
            None,
        ),
        (
            Step::status(400)
                .body(r#"{"error": {"message": "Zu lang.", "code": "context_length_exceeded"}}"#),
            400,
            "context_length_exceeded",
            None,
        ),
        (
            Step::status(400)
                .body(r#"{"error": {"message": "Your input exceeds the context window of this model."}}"#),
            400,
            "context_length_exceeded",
            None,
        ),
    ];
    for (index, (step, status, code, header)) in cases.into_iter().enumerate() {
        let upstream = ScriptedServer::start(Script::new([step]).repeat_last());
        let settings = format!(
            "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\nretries = 0\n",
            upstream.base_url()
        );
        let project = Project::new(&format!("gateway-status-{index}")).file("slipform.toml", &settings);
        let (_server, address) = serve(&project, &[]);
        for body in [chat("scripted", &json!({})), streamed(chat("scripted", &json!({})))] {
            let answered = post(&address, &body);
            assert_eq!((answered.status, &answered.json()["error"]["code"]), (status, &json!(code)));
            assert!(header.is_none_or(|header| answered.head.contains(header)), "{}", answered.head);
        }
    }
}

/// Returns the settings of a backend that repeats failed calls.
fn patient_backend(name: &str, upstream: &ScriptedServer) -> String {
    format!("[backends.{name}]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n", upstream.base_url())
}

#[test]
fn busy_backend_is_reported_within_the_time_limit_of_the_client() {
    let upstream =
        ScriptedServer::start(Script::new([Step::status(429).header("Retry-After", "30")]).repeat_last());
    let project = Project::new("gateway-busy").file("slipform.toml", &patient_backend("scripted", &upstream));
    let (_server, address) = serve(&project, &[]);
    let body = chat("scripted", &with_schema());
    let answered = read(open(&address, &body, "x-stainless-read-timeout: 20\r\n"));
    assert_eq!(answered.status, 429, "{}", answered.text);
    assert!(answered.head.contains("retry-after: 30"), "{}", answered.head);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn busy_backend_of_a_route_gives_way_to_the_next_one_at_once() {
    let busy =
        ScriptedServer::start(Script::new([Step::status(429).header("Retry-After", "50")]).repeat_last());
    let spare = ScriptedServer::start([Step::text(r#"{"name": "Ada", "age": 36}"#)]);
    let settings = format!(
        "default_backend = \"spare\"\n{}{}[backends.broken]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
         [gateway.routes]\nfast = [\"busy\", \"broken\", \"spare\"]\n",
        patient_backend("busy", &busy),
        patient_backend("spare", &spare)
    );
    let (_server, address) = serve(&Project::new("gateway-busy-route").file("slipform.toml", &settings), &[]);
    let answered = post(&address, &chat("fast", &with_schema()));
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert_eq!((busy.requests().len(), spare.requests().len()), (1, 1));
}

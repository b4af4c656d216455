//! What the probe finds out about servers that keep, bend or refuse what they are asked for.

use formwork_model::probe::{Verdict, probe};
use formwork_model::{BackendConfig, Error};
use formwork_testkit::{Recorded, Script, ScriptedServer, Step};
use formwork_types::{BackendKind, Capabilities, Support};
use serde_json::{Value, json};

use crate::support::{backend, config, once};

async fn verdict(server: &ScriptedServer) -> Result<Verdict, Error> {
    probe(&*backend(&once(BackendKind::OpenAi, server)), &|_| {}).await
}

fn all(support: Support) -> Capabilities {
    Capabilities { json_schema: support, json_object: support, tools: support, forced_tools: support }
}

/// Says a document in the way that was asked for.
fn document(request: &Recorded, document: &Value) -> Step {
    match request.body["tools"][0]["function"]["name"].as_str() {
        Some(name) => Step::tool(name, document.clone()),
        None => Step::json(document),
    }
}

/// What the prompt talks a model into where nothing holds it.
fn lured() -> Value {
    json!({"colour": "ultraviolet", "rating": 99, "note": "hello"})
}

#[tokio::test]
async fn a_server_that_enforces_is_told_from_its_answer() {
    let server =
        ScriptedServer::respond(|request, _| document(request, &json!({"colour": "red", "rating": 5})));
    let verdict = verdict(&server).await.unwrap();
    assert_eq!(verdict.capabilities, all(Support::Enforced));
    assert_eq!(verdict.calls, 4);
    for finding in &verdict.findings {
        let held = (finding.enumeration, finding.extra_property, finding.number_bound);
        assert_eq!(held, (Some(true), Some(true), Some(true)), "{finding:?}");
    }
}

#[tokio::test]
async fn a_bound_that_does_not_hold_is_told_beside_what_does() {
    let server =
        ScriptedServer::respond(|request, _| document(request, &json!({"colour": "green", "rating": 99})));
    let verdict = verdict(&server).await.unwrap();
    assert_eq!(verdict.capabilities, all(Support::Enforced));
    assert!(verdict.findings.iter().all(|finding| finding.number_bound == Some(false)));
}

#[tokio::test]
async fn a_form_whose_constraints_do_not_hold_is_only_accepted() {
    let server = ScriptedServer::respond(|request, _| document(request, &lured()));
    let verdict = verdict(&server).await.unwrap();
    assert_eq!(verdict.capabilities, all(Support::Accepted));
    for finding in &verdict.findings {
        assert_eq!((finding.enumeration, finding.extra_property), (Some(false), Some(false)));
        assert_eq!(finding.evidence, lured().to_string());
    }
}

#[tokio::test]
async fn a_server_that_does_as_if_nothing_was_asked_ignores() {
    let server = ScriptedServer::respond(|_, _| Step::text("Sure!  Ultraviolet it is."));
    let verdict = verdict(&server).await.unwrap();
    assert_eq!(verdict.capabilities, all(Support::Ignored));
    assert!(verdict.findings.iter().all(|finding| finding.evidence == "Sure! Ultraviolet it is."));
}

#[tokio::test]
async fn a_server_may_refuse_one_thing_and_enforce_another() {
    let server = ScriptedServer::respond(|request, _| match &request.body["response_format"]["type"] {
        Value::String(kind) if kind == "json_object" => Step::status(400),
        Value::String(_) => document(request, &json!({"colour": "red", "rating": 1})),
        _ if request.body["tool_choice"].is_null() => document(request, &lured()),
        // Some servers break over what they do not know.
        _ => Step::status(500),
    });
    let verdict = verdict(&server).await.unwrap();
    let expected = Capabilities {
        json_schema: Support::Enforced,
        json_object: Support::Refused,
        tools: Support::Accepted,
        forced_tools: Support::Refused,
    };
    assert_eq!(verdict.capabilities, expected);
    assert!(verdict.findings[1].evidence.ends_with("scripted status 400"), "{:?}", verdict.findings[1]);
}

#[tokio::test]
async fn the_schema_is_sent_through_the_feature_alone() {
    let server = ScriptedServer::respond(|request, _| document(request, &lured()));
    verdict(&server).await.unwrap();
    for request in server.requests() {
        assert!(!request.prompt().contains("green"), "{}", request.prompt());
        assert!(request.body.to_string().contains("green"));
    }
}

#[tokio::test]
async fn a_key_that_is_refused_says_nothing_of_features() {
    for status in [401, 403] {
        let server = ScriptedServer::respond(move |_, _| Step::status(status));
        let error = verdict(&server).await.unwrap_err();
        assert!(matches!(error, Error::Rejected { .. }), "{error:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_is_away_says_nothing_of_features() {
    let server = ScriptedServer::start([]);
    let config = BackendConfig { retries: 1, ..config(BackendKind::OpenAi, &server) };
    drop(server);
    let error = probe(&*backend(&config), &|_| {}).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let server = ScriptedServer::respond(|_, _| Step::status(503));
    let error = verdict(&server).await.unwrap_err();
    assert!(matches!(error, Error::Busy { status: 503, .. }), "{error:?}");
}

#[tokio::test]
async fn the_owner_of_the_models_tells_whose_rules_apply() {
    for (owner, dialect) in [("vllm", Some("vllm")), ("llamacpp", Some("llama.cpp")), ("somebody", None)] {
        let script = Script::respond(|_, _| Step::text("x")).serving("model-7b", owner);
        let verdict = verdict(&ScriptedServer::start(script)).await.unwrap();
        assert_eq!(verdict.dialect.as_deref(), dialect, "{owner}");
    }
    let script = Script::respond(|_, _| Step::text("x")).route("GET", "/v1/models", Step::status(404));
    assert_eq!(verdict(&ScriptedServer::start(script)).await.unwrap().dialect, None);
}
